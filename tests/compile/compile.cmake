# cmake -Dcompiler= -Dsource= -Dincludes=DIR|DIR -Dmistake=[MACRO|WORDS] -P compile.cmake

string(REPLACE "|" ";" includes "${includes}")
list(TRANSFORM includes PREPEND "-I")
string(REPLACE "|" ";" mistake "${mistake}")
set(compile ${compiler} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror ${includes})

execute_process(COMMAND ${compile} ${source} RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${source} must compile:\n${said}")
endif()
if(NOT mistake)
  return()
endif()

list(POP_FRONT mistake macro)
execute_process(COMMAND ${compile} -D${macro} ${source} RESULT_VARIABLE status ERROR_VARIABLE said)
if(status EQUAL 0)
  message(FATAL_ERROR "${source} compiles with -D${macro}; it must be refused")
endif()
string(FIND "${said}" "${mistake}" where)
if(where EQUAL -1)
  message(FATAL_ERROR "${source} with -D${macro} is refused, but not because of '${mistake}':\n${said}")
endif()
