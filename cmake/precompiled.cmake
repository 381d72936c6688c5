# Precompiled headers: one a floor, and one a floor for its tests. What nearly every file of a floor includes costs seconds a file to read
# (LibTorch 8, fmt 1, GoogleTest 3); precompiled it costs a fraction of that. Only what nearly every file needs: GCC instantiates the
# templates that a header leaves open once more in every file that it is precompiled for, needed or not (nlohmann-json 0.9 s,
# LibTorch's autograd 1.5 s; docs/log.md).
#
# longhaul_use_header(TARGET FLOOR)      FLOOR: ground, upper, ground_test or upper_test
#
# A source that must not see them, or is compiled with other options, has SKIP_PRECOMPILE_HEADERS.
set(longhaul_header_ground <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string> <vector>
    <fmt/format.h> <fmt/ranges.h>)
set(longhaul_header_upper <ATen/ATen.h> <fmt/format.h> <fmt/ranges.h>)
set(longhaul_header_ground_test ${longhaul_header_ground} <gmock/gmock.h> <gtest/gtest.h>)
set(longhaul_header_upper_test ${longhaul_header_upper} <gmock/gmock.h> <gtest/gtest.h>)

function(longhaul_use_header target floor)
  set(header longhaul_header_of_${floor})
  if(NOT TARGET ${header})
    file(WRITE ${CMAKE_BINARY_DIR}/header/${floor}.cpp "")
    add_library(${header} OBJECT ${CMAKE_BINARY_DIR}/header/${floor}.cpp)
    target_link_libraries(${header} PRIVATE fmt::fmt longhaul_openmp)
    if(floor MATCHES upper)
      target_link_libraries(${header} PRIVATE longhaul_torch)
    endif()
    if(floor MATCHES test)
      target_link_libraries(${header} PRIVATE GTest::gmock GTest::gtest)
    endif()
    target_precompile_headers(${header} PRIVATE ${longhaul_header_${floor}})
    # What is in it, for the compiler cache: the same here and in every other clone, with tests or without.
    set(gtest "")
    if(floor MATCHES test)
      set(gtest ${GTest_VERSION})
    endif()
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${header}.dir/cmake_pch.hxx.gch.sum
      "${longhaul_header_${floor}} ${CMAKE_CXX_COMPILER_VERSION} fmt ${fmt_VERSION} gtest ${gtest} ${torch_version}")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${header})
endfunction()
