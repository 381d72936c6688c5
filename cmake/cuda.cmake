# CUDA without CMake's own CUDA language, which wants a whole toolkit: nvcc compiles each source by a rule of ours. Code for sm_90a
# (Hopper) and sm_80; later GPUs take the PTX of sm_80.
#
# longhaul_cuda_objects(RESULT sources…)                       compiled once, whoever asks for them
# longhaul_cuda_program(NAME HOST_OBJECTS target CUDA sources…)  linked by nvcc, the static runtime included (gpu-check)
#
# LONGHAUL_WITH_CUDA: the program itself carries the kernels, which takes LONGHAUL_CUDA and a LibTorch with CUDA. They share LibTorch's
# CUDA runtime, so the process has one.
set(LONGHAUL_WITH_CUDA OFF)
if(NOT LONGHAUL_CUDA)
  return()
endif()
find_program(LONGHAUL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT LONGHAUL_NVCC)
  message(FATAL_ERROR "LONGHAUL_CUDA=ON and no nvcc was found. Put it on PATH, set CUDA_HOME, or configure with -DLONGHAUL_CUDA=OFF.")
endif()
set(LONGHAUL_CUDA_FLAGS -std=c++20 -O3 -Xcompiler=-fPIC,-Wall
  -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=[sm_80,compute_80])

if(TARGET longhaul_torch_cuda)
  set(LONGHAUL_WITH_CUDA ON)
  # The runtime that LibTorch loads, wherever it lies: in a wheel of its own, or in the system.
  execute_process(COMMAND ldd ${LONGHAUL_TORCH}/lib/libtorch_cuda.so OUTPUT_VARIABLE loaded ERROR_QUIET)
  execute_process(COMMAND ${LONGHAUL_NVCC} --version OUTPUT_VARIABLE compiler ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)" compiler "${compiler}")
  set(compiler_major "${CMAKE_MATCH_1}")
  string(REGEX MATCH "libcudart[.]so[.]([0-9]+)[^=]*=> (/[^ \n]+)" runtime "${loaded}")
  set(runtime_major "${CMAKE_MATCH_1}")
  if(NOT runtime OR NOT compiler_major STREQUAL runtime_major)
    message(FATAL_ERROR "The CUDA kernels cannot join this LibTorch: nvcc is of CUDA ${compiler_major}, LibTorch's runtime of CUDA "
                        "\"${runtime_major}\" (${LONGHAUL_TORCH}/lib/libtorch_cuda.so). Use an nvcc of that version, or -DLONGHAUL_CUDA=OFF.")
  endif()
  get_filename_component(runtime "${CMAKE_MATCH_2}" REALPATH)
  add_library(longhaul_cuda_runtime INTERFACE)
  target_link_libraries(longhaul_cuda_runtime INTERFACE ${runtime})
  get_filename_component(runtime_folder ${runtime} DIRECTORY)
  list(APPEND CMAKE_BUILD_RPATH ${runtime_folder})
  # NCCL (src/comm/c10d/nccl.cpp, nccl-check): the library that LibTorch loads, and its header, which lies beside it in NVIDIA's wheel.
  string(REGEX MATCH "libnccl[^=]*=> (/[^ \n]+)" nccl "${loaded}")
  get_filename_component(LONGHAUL_NCCL "${CMAKE_MATCH_1}" REALPATH)
  get_filename_component(nccl_folder "${LONGHAUL_NCCL}" DIRECTORY)
  find_path(LONGHAUL_NCCL_HEADER nccl.h HINTS ${nccl_folder}/../include)
  get_filename_component(LONGHAUL_CUDA_HEADERS ${LONGHAUL_NVCC} DIRECTORY)
  get_filename_component(LONGHAUL_CUDA_HEADERS ${LONGHAUL_CUDA_HEADERS}/../include ABSOLUTE)
endif()

function(longhaul_cuda_objects result)
  set(objects "")
  foreach(source ${ARGN})
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${source})
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    list(APPEND objects ${object})
    get_property(known GLOBAL PROPERTY longhaul_cuda_known)
    if(object IN_LIST known)
      continue()
    endif()
    set_property(GLOBAL APPEND PROPERTY longhaul_cuda_known ${object})
    string(MAKE_C_IDENTIFIER ${name} target)
    add_custom_command(OUTPUT ${object}
      COMMAND ${LONGHAUL_NVCC} ${LONGHAUL_CUDA_FLAGS} -I${CMAKE_SOURCE_DIR}/src -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Building CUDA object ${object}")
    add_custom_target(cuda_${target} DEPENDS ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

function(longhaul_cuda_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOST_OBJECTS;CUDA")
  longhaul_cuda_objects(objects ${arg_CUDA})
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${name}
    COMMAND ${LONGHAUL_NVCC} -cudart=static -o ${CMAKE_BINARY_DIR}/${name} ${objects} $<TARGET_OBJECTS:${arg_HOST_OBJECTS}>
    DEPENDS ${objects} ${arg_HOST_OBJECTS} $<TARGET_OBJECTS:${arg_HOST_OBJECTS}> COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking ${name}")
  add_custom_target(${name} ALL DEPENDS ${CMAKE_BINARY_DIR}/${name})
  foreach(source ${arg_CUDA})
    file(RELATIVE_PATH target ${CMAKE_SOURCE_DIR} ${source})
    string(MAKE_C_IDENTIFIER ${target} target)
    add_dependencies(${name} cuda_${target})
  endforeach()
endfunction()
