# Trainings on several processes: the same bytes, kills, errors, two hosts. README.md of tests/ says what runs them longer.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND EQUIGRAD_CLI AND NOT EQUIGRAD_SANITIZE AND NOT EMSCRIPTEN)
  # equigrad_distributed_script(name [arguments...]): 77 is skipped: no MPI, or no right to make namespaces.
  function(equigrad_distributed_script name)
    add_test(NAME distributed.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py
                                              $<TARGET_FILE:equigrad_cli> ${ARGN})
    # Processes of one test take all processors.
    set_tests_properties(distributed.${name} PROPERTIES LABELS "slow;distributed" TIMEOUT 1200 SKIP_RETURN_CODE 77
                                                        PROCESSORS 2)
  endfunction()
  equigrad_distributed_script(train_matrix)
  equigrad_distributed_script(train_kills --resumes 2 --ends 3)
  equigrad_distributed_script(train_errors)
  equigrad_distributed_script(two_hosts)
endif()
if(NOT EQUIGRAD_SANITIZE AND NOT EMSCRIPTEN)
  add_test(NAME distributed.without_mpi
           COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBINARY=${CMAKE_CURRENT_BINARY_DIR}/without_mpi
                   -DCOMPILER=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR} -P
                   ${CMAKE_CURRENT_SOURCE_DIR}/without_mpi.cmake)
  set_tests_properties(distributed.without_mpi PROPERTIES LABELS "slow;distributed" TIMEOUT 600)
endif()
