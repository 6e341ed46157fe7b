# Configures the project without MPI and compiles what opens its modules, one file: the library
# would take minutes.
#   cmake -DSOURCE=... -DBINARY=... -DCOMPILER=... -DGENERATOR=... -P without_mpi.cmake
function(configure mpi)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${BINARY} -DCMAKE_CXX_COMPILER=${COMPILER}
            -DEQUIGRAD_MPI=${mpi} -DEQUIGRAD_TESTS=OFF -DEQUIGRAD_EXAMPLES=OFF ${ARGN}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  set(result ${result} PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(targets_of_mpi)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --target help OUTPUT_VARIABLE targets)
  string(REGEX MATCHALL "equigrad_(openmpi|mpich)" found "${targets}")
  set(found "${found}" PARENT_SCOPE)
endfunction()

configure(OFF)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "EQUIGRAD_MPI=OFF does not configure:\n${output}")
endif()
targets_of_mpi()
if(found)
  message(FATAL_ERROR "EQUIGRAD_MPI=OFF, and there are ${found}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --target
                        distributed/CMakeFiles/equigrad_distributed.dir/mpi.cpp.o RESULT_VARIABLE result
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "EQUIGRAD_MPI=OFF does not compile:\n${output}")
endif()

# Negative control: a word that is none is refused.
configure(MAYBE)
if(result EQUAL 0 OR NOT output MATCHES "EQUIGRAD_MPI is 'MAYBE'")
  message(FATAL_ERROR "EQUIGRAD_MPI=MAYBE is not refused:\n${output}")
endif()
