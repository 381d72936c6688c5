# CUDA without CMake's own CUDA language, which wants a whole toolkit: nvcc compiles each source by a rule of ours and links
# gpu-check, the static runtime included. Code for sm_90a (Hopper) and sm_80; later GPUs take the PTX of sm_80.
#
# longhaul_cuda_program(NAME HOST_OBJECTS sources… CUDA sources…)
if(NOT LONGHAUL_CUDA)
  return()
endif()
find_program(LONGHAUL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT LONGHAUL_NVCC)
  message(FATAL_ERROR "LONGHAUL_CUDA=ON and no nvcc was found. Put it on PATH, set CUDA_HOME, or configure with -DLONGHAUL_CUDA=OFF.")
endif()
set(LONGHAUL_CUDA_FLAGS -std=c++20 -O3 -Xcompiler=-fPIC,-Wall
  -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=[sm_80,compute_80])

function(longhaul_cuda_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOST_OBJECTS;CUDA")
  set(objects "")
  foreach(source ${arg_CUDA})
    file(RELATIVE_PATH object ${CMAKE_SOURCE_DIR} ${source})
    set(object ${CMAKE_BINARY_DIR}/cuda/${object}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${LONGHAUL_NVCC} ${LONGHAUL_CUDA_FLAGS} -I${CMAKE_SOURCE_DIR}/src -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Building CUDA object ${object}")
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${name}
    COMMAND ${LONGHAUL_NVCC} -cudart=static -o ${CMAKE_BINARY_DIR}/${name} ${objects} $<TARGET_OBJECTS:${arg_HOST_OBJECTS}>
    DEPENDS ${objects} ${arg_HOST_OBJECTS} $<TARGET_OBJECTS:${arg_HOST_OBJECTS}> COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking ${name}")
  add_custom_target(${name} ALL DEPENDS ${CMAKE_BINARY_DIR}/${name})
endfunction()
