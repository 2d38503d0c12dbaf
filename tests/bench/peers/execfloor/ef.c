// C reference floor for E1/E2/E3: lock-free mailbox (CAS stack, batch take + reverse) with a mutex+condvar run queue, W
// workers; items malloc'd by the producer and freed by the consumer. Also raw context-switch and thread hand-off costs.
#define _GNU_SOURCE
#include "../common/pb.h"
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <ucontext.h>
typedef struct item {
    struct item *next;
    void (*fn)(void *);
    void *arg;
} item;
#define IDLE ((item *)1)
typedef struct actor {
    _Atomic(item *) box;
    struct actor *rq;
    long n, lim;
} actor;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static actor *rh, *rt;
static int sleepers, stopf;
static sem_t done;
static atomic_long left;
static __thread actor *cur;
static void sched(actor *a)
{
    a->rq = 0;
    pthread_mutex_lock(&m);
    if (rt)
        rt->rq = a;
    else
        rh = a;
    rt = a;
    int s = sleepers;
    pthread_mutex_unlock(&m);
    if (s)
        pthread_cond_signal(&cv);
}
static void post(actor *a, void (*fn)(void *), void *arg)
{
    item *i = malloc(sizeof *i);
    i->fn = fn;
    i->arg = arg;
    item *o = atomic_load_explicit(&a->box, memory_order_relaxed);
    do
        i->next = o == IDLE ? 0 : o;
    while (!atomic_compare_exchange_weak_explicit(&a->box, &o, i, memory_order_acq_rel, memory_order_relaxed));
    if (o == IDLE)
        sched(a);
}
static void runa(actor *a)
{
    cur = a;
    item *l = atomic_exchange_explicit(&a->box, 0, memory_order_acq_rel), *r = 0;
    while (l) {
        item *n = l->next;
        l->next = r;
        r = l;
        l = n;
    }
    while (r) {
        item *n = r->next;
        r->fn(r->arg);
        free(r);
        r = n;
    }
    item *z = 0;
    if (!atomic_compare_exchange_strong(&a->box, &z, IDLE))
        sched(a);
}
static void *worker(void *_)
{
    for (;;) {
        pthread_mutex_lock(&m);
        while (!rh && !stopf) {
            sleepers++;
            pthread_cond_wait(&cv, &m);
            sleepers--;
        }
        if (!rh) {
            pthread_mutex_unlock(&m);
            return 0;
        }
        actor *a = rh;
        rh = a->rq;
        if (!rh)
            rt = 0;
        pthread_mutex_unlock(&m);
        runa(a);
    }
}
static pthread_t wt[8];
static int W;
static void start(int w)
{
    W = w;
    stopf = 0;
    for (int i = 0; i < w; i++)
        pthread_create(&wt[i], 0, worker, 0);
}
static void stop(void)
{
    pthread_mutex_lock(&m);
    stopf = 1;
    pthread_cond_broadcast(&cv);
    pthread_mutex_unlock(&m);
    for (int i = 0; i < W; i++)
        pthread_join(wt[i], 0);
}
static void inc(void *x)
{
    actor *a = x;
    if (++a->n == a->lim && atomic_fetch_sub(&left, 1) == 1)
        sem_post(&done);
}
static actor *mk(int n, long lim)
{
    actor *a = aligned_alloc(64, (sizeof(actor) + 63) / 64 * 64 * n);
    memset(a, 0, sizeof(actor) * n);
    for (int i = 0; i < n; i++) {
        a[i].box = IDLE;
        a[i].lim = lim;
    }
    return a;
}
static actor *A;
static int NA;
static long per;
static void *prod(void *_)
{
    for (long r = 0; r < per; r++)
        for (int q = 0; q < NA; q++)
            post(&A[q], inc, &A[q]);
    return 0;
}
static void e1(int w, int np, int na, long total, const char *wl, const char *name)
{
    start(w);
    A = mk(na, total / na);
    NA = na;
    per = total / na / np;
    atomic_store(&left, na);
    pb_begin();
    double c0 = cpu_self();
    uint64_t t0 = now_ns();
    pthread_t p[4];
    for (int i = 0; i < np; i++)
        pthread_create(&p[i], 0, prod, 0);
    sem_wait(&done);
    double t = now_ns() - t0, c = cpu_self() - c0;
    for (int i = 0; i < np; i++)
        pthread_join(p[i], 0);
    stop();
    char b[96];
    snprintf(b, 96, "%d workers,%s", w, name);
    emit("execfloor", wl, b, "rate", total / t * 1e9, "items/s");
    emit("execfloor", wl, b, "cpu_per_million", c * 1e6 / total, "cpu_s/1e6");
    free(A);
}
static actor *pa, *pb_;
static long pn;
static void pong(void *);
static void ping(void *_)
{
    if (--pn)
        post(pb_, pong, 0);
    else
        sem_post(&done);
}
static void pong(void *_)
{
    post(pa, ping, 0);
}
static void pp(int w)
{
    start(w);
    pa = mk(1, 0);
    pb_ = mk(1, 0);
    pn = 500000;
    pb_begin();
    uint64_t t0 = now_ns();
    post(pb_, pong, 0);
    sem_wait(&done);
    double t = now_ns() - t0;
    stop();
    char b[64];
    snprintf(b, 64, "%d workers,ping-pong 2 actors", w);
    emit("execfloor", "E2a", b, "rate", 500000 / t * 1e9, "roundtrips/s");
}
// context switches
static ucontext_t u0, u1;
static volatile long cs;
static void co(void)
{
    for (;;) {
        cs++;
        swapcontext(&u1, &u0);
    }
}
void *sw_main, *sw_co;
__attribute__((naked, noinline)) static void sw(void **save, void *to)
{
    __asm__("pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp,(%rdi)\nmovq "
            "%rsi,%rsp\npopq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
}
static void co2(void)
{
    for (;;) {
        cs++;
        sw(&sw_co, sw_main);
    }
}
// thread hand-off
static sem_t sa, sb;
static void *tp(void *_)
{
    for (int i = 0; i < 50000; i++) {
        sem_wait(&sa);
        sem_post(&sb);
    }
    return 0;
}
static int ea, eb;
static void *te(void *_)
{
    uint64_t v;
    for (int i = 0; i < 50000; i++) {
        if (read(ea, &v, 8) != 8)
            break;
        v = 1;
        if (write(eb, &v, 8) != 8)
            break;
    }
    return 0;
}
static void switches(void)
{
    {
        static char st[65536];
        getcontext(&u0);
        getcontext(&u1);
        u1.uc_stack.ss_sp = st;
        u1.uc_stack.ss_size = sizeof st;
        u1.uc_link = 0;
        makecontext(&u1, co, 0);
        long N = 500000;
        pb_begin();
        uint64_t t0 = now_ns();
        for (long i = 0; i < N; i++)
            swapcontext(&u0, &u1);
        emit("execfloor", "switch", "swapcontext", "rate", N / ((now_ns() - t0) * 1e-9), "cycles/s");
    }
    {
        static char st[65536] __attribute__((aligned(64)));
        void **sp = (void **)(st + sizeof st - 64);
        *--sp = 0;
        *--sp = (void *)co2;
        for (int i = 0; i < 6; i++)
            *--sp = 0;
        sw_co = sp;
        long N = 20000000;
        pb_begin();
        uint64_t t0 = now_ns();
        for (long i = 0; i < N; i++)
            sw(&sw_main, sw_co);
        emit("execfloor", "switch", "by hand", "rate", N / ((now_ns() - t0) * 1e-9), "cycles/s");
    }
    {
        sem_init(&sa, 0, 0);
        sem_init(&sb, 0, 0);
        pthread_t t;
        pthread_create(&t, 0, tp, 0);
        pb_begin();
        uint64_t t0 = now_ns();
        for (int i = 0; i < 50000; i++) {
            sem_post(&sa);
            sem_wait(&sb);
        }
        double w = now_ns() - t0;
        pthread_join(t, 0);
        emit("execfloor", "switch", "2 threads, futex", "rate", 50000 / w * 1e9, "cycles/s");
    }
    {
        ea = eventfd(0, 0);
        eb = eventfd(0, 0);
        pthread_t t;
        pthread_create(&t, 0, te, 0);
        pb_begin();
        uint64_t t0 = now_ns(), v;
        for (int i = 0; i < 50000; i++) {
            v = 1;
            if (write(ea, &v, 8) != 8)
                break;
            if (read(eb, &v, 8) != 8)
                break;
        }
        double w = now_ns() - t0;
        pthread_join(t, 0);
        emit("execfloor", "switch", "2 threads, eventfd", "rate", 50000 / w * 1e9, "cycles/s");
    }
}
// ef WORKLOAD: E1a, E1b, E2a, E2b with one worker and with two, or switch
int main(int ac, char **av)
{
    const char *x = ac > 1 ? av[1] : "";
    alarm(120);
    sem_init(&done, 0, 0);
    if (!strcmp(x, "switch")) {
        switches();
        return 0;
    }
    for (int w = 1; w <= 2; w++) {
        if (!strcmp(x, "E1a"))
            e1(w, 1, 1, 5000000, x, "1 producer 1 queue");
        else if (!strcmp(x, "E1b"))
            e1(w, 2, 1000, 5000000, x, "2 producers 1000 queues");
        else if (!strcmp(x, "E2a"))
            pp(w);
        else if (!strcmp(x, "E2b"))
            e1(w, 2, 10000, 5000000, x, "10000 actors x500 msgs");
        else
            return 2;
    }
    return 0;
}
