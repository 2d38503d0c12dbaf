# Run by the build (cmake -P): one .proto to its .pb.c, .pb.h and .zlink.h. The generators only warn where they should
# stop (an .options line that matches nothing leaves a field without its limit), so whatever they say is an error.
set(nanopb_options --nanopb_opt=-I${FOLDER} --nanopb_opt=--error-on-unmatched)
if(NOT KEEP_PACKAGE)
  list(APPEND nanopb_options "--nanopb_opt=-s mangle_names:M_STRIP_PACKAGE")
  set(names_options --zlink_opt=strip_package)
endif()
file(MAKE_DIRECTORY ${OUT})
execute_process(
  COMMAND ${PROTOC} --proto_path=${FOLDER} --plugin=protoc-gen-nanopb=${NANOPB} --nanopb_out=${OUT} ${nanopb_options}
          --plugin=protoc-gen-zlink=${PACKET_NAMES} --zlink_out=${OUT} ${names_options} ${STEM}.proto
  RESULT_VARIABLE result
  OUTPUT_VARIABLE said
  ERROR_VARIABLE said)
if(NOT result EQUAL 0 OR NOT said STREQUAL "")
  file(REMOVE ${OUT}/${STEM}.pb.c ${OUT}/${STEM}.pb.h ${OUT}/${STEM}.zlink.h)
  message("${said}")
  message(FATAL_ERROR "  ${STEM}.proto was refused")
endif()

# A message is decoded before its handler sees it, into one struct: every field must have its place in there.
if(NOT ALLOW_CALLBACKS)
  file(STRINGS ${OUT}/${STEM}.pb.h loose REGEX "^X\\(a, (CALLBACK|POINTER), ")
  if(loose)
    list(GET loose 0 first)
    string(REGEX REPLACE "^.*, +([A-Za-z0-9_]+), +[0-9]+\\).*$" "\\1" field ${first})
    file(REMOVE ${OUT}/${STEM}.pb.c ${OUT}/${STEM}.pb.h ${OUT}/${STEM}.zlink.h)
    message("${STEM}.proto: field \"${field}\" has no limit. Give it max_size (string, bytes) or max_count "
            "(repeated) in ${STEM}.options beside the .proto.")
    message(FATAL_ERROR "  ${STEM}.proto was refused")
  endif()
endif()
