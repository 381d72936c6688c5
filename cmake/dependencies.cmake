# Libraries that Longhaul borrows. All but LibTorch are Debian packages; scripts/packages.txt lists them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
find_package(hwy REQUIRED)
# Its headers alone: kernels/vector/targets.h chooses among instruction sets, so nothing of Highway is linked.
add_library(longhaul_highway INTERFACE)
target_include_directories(longhaul_highway SYSTEM INTERFACE $<TARGET_PROPERTY:hwy::hwy,INTERFACE_INCLUDE_DIRECTORIES>)
if(LONGHAUL_TESTS)
  find_package(GTest REQUIRED)
endif()

# LibTorch bundles other fmt headers than Debian's and puts them on its include path. A folder that holds nothing but a
# link to Debian's fmt, first on every include path, lets both live in one program.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
list(GET fmt_include 0 fmt_include)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include-first)
file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/include-first/fmt SYMBOLIC)
include_directories(BEFORE ${CMAKE_BINARY_DIR}/include-first)

# OpenMP: parallel_for runs on the OpenMP threads, which are LibTorch's own intra-op threads, so the program has one pool.
# The wheel's libgomp must be the only OpenMP runtime in the process: link that file where LibTorch is known.
set(longhaul_rpath "")
add_library(longhaul_openmp INTERFACE)
target_compile_options(longhaul_openmp INTERFACE -fopenmp)
if(LONGHAUL_TORCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  file(GLOB torch_gomp ${LONGHAUL_TORCH}/lib/libgomp*.so* ${LONGHAUL_TORCH}/../torch.libs/libgomp*.so*)
endif()
if(torch_gomp)
  list(GET torch_gomp 0 torch_gomp)
  target_link_libraries(longhaul_openmp INTERFACE ${torch_gomp})
else()
  target_link_options(longhaul_openmp INTERFACE -fopenmp)
endif()

if(LONGHAUL_TORCH)
  if(NOT EXISTS ${LONGHAUL_TORCH}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "LONGHAUL_TORCH=${LONGHAUL_TORCH} holds no lib/libtorch_cpu.so. Let ./longhaul find or fetch LibTorch, "
                        "or name the folder that holds its include/ and lib/.")
  endif()
  file(SHA256 ${LONGHAUL_TORCH}/lib/libc10.so torch_version)
  add_library(longhaul_torch INTERFACE)
  target_include_directories(longhaul_torch SYSTEM INTERFACE ${LONGHAUL_TORCH}/include)
  target_link_libraries(longhaul_torch INTERFACE ${LONGHAUL_TORCH}/lib/libtorch_cpu.so ${LONGHAUL_TORCH}/lib/libc10.so)
  list(APPEND longhaul_rpath ${LONGHAUL_TORCH}/lib)
  # LibTorch's CUDA part joins by being loaded; no symbol of it is named, so a linker that drops such libraries is told not to.
  # NVIDIA's libraries are found by the RPATH that LibTorch's own carry.
  if(EXISTS ${LONGHAUL_TORCH}/lib/libtorch_cuda.so)
    add_library(longhaul_torch_cuda INTERFACE)
    target_link_options(longhaul_torch_cuda INTERFACE -Wl,--no-as-needed)
    target_link_libraries(longhaul_torch_cuda INTERFACE ${LONGHAUL_TORCH}/lib/libtorch_cuda.so ${LONGHAUL_TORCH}/lib/libc10_cuda.so)
  endif()
endif()

# For programs that compute: LibTorch's CUDA part, and our kernels with their way in from tensors (src/kernels), where there are any.
function(longhaul_use_cuda program)
  if(TARGET longhaul_torch_cuda)
    target_link_libraries(${program} PRIVATE longhaul_torch_cuda)
  endif()
  if(LONGHAUL_WITH_CUDA)
    target_link_libraries(${program} PRIVATE longhaul_cuda_calls longhaul_cuda_kernels)
  endif()
endfunction()

# Arrow C++ from the pyarrow wheel, for Parquet and Arrow tables; optional.
if(LONGHAUL_ARROW)
  file(GLOB arrow_library ${LONGHAUL_ARROW}/libarrow.so.[0-9]* )
  file(GLOB parquet_library ${LONGHAUL_ARROW}/libparquet.so.[0-9]*)
  if(NOT arrow_library OR NOT parquet_library OR NOT EXISTS ${LONGHAUL_ARROW}/include/parquet/arrow/reader.h)
    message(FATAL_ERROR "LONGHAUL_ARROW=${LONGHAUL_ARROW} holds no libarrow.so.*, libparquet.so.* and include/. scripts/fetch-arrow prints a folder that does.")
  endif()
  list(GET arrow_library 0 arrow_library)
  list(GET parquet_library 0 parquet_library)
  add_library(longhaul_arrow INTERFACE)
  target_include_directories(longhaul_arrow SYSTEM INTERFACE ${LONGHAUL_ARROW}/include)
  target_link_libraries(longhaul_arrow INTERFACE ${parquet_library} ${arrow_library})
  list(APPEND longhaul_rpath ${LONGHAUL_ARROW})
endif()

# The tarball carries LibTorch in lib/ beside bin/; the wheel finds it in torch/lib beside its own folder.
set(CMAKE_BUILD_RPATH ${longhaul_rpath})
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../../torch/lib")
# DT_RPATH, not DT_RUNPATH: LibTorch's own dependencies must be found beside it as well.
add_link_options(-Wl,--disable-new-dtags)
