/* A shared object that has nothing to do with zlink. */
int just_a_library(void);

__attribute__((visibility("default"))) int just_a_library(void)
{
    return 1;
}
