# Precompiled headers: one a floor, and one a floor for its tests. What nearly every file of a floor includes costs seconds a file to read
# (LibTorch 8, fmt with nlohmann-json 2, GoogleTest 3); precompiled it costs a fraction of one.
#
# longhaul_use_header(TARGET FLOOR)      FLOOR: ground, upper, ground_test or upper_test
#
# A source that must not see them, or is compiled with other options, has SKIP_PRECOMPILE_HEADERS.
set(longhaul_header_ground <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string> <vector>
    <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
set(longhaul_header_upper <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
set(longhaul_header_ground_test ${longhaul_header_ground} <gmock/gmock.h> <gtest/gtest.h>)
set(longhaul_header_upper_test ${longhaul_header_upper} <gmock/gmock.h> <gtest/gtest.h>)

function(longhaul_use_header target floor)
  set(header longhaul_header_of_${floor})
  if(NOT TARGET ${header})
    file(WRITE ${CMAKE_BINARY_DIR}/header/${floor}.cpp "")
    add_library(${header} OBJECT ${CMAKE_BINARY_DIR}/header/${floor}.cpp)
    target_link_libraries(${header} PRIVATE fmt::fmt nlohmann_json::nlohmann_json longhaul_openmp)
    if(floor MATCHES upper)
      target_link_libraries(${header} PRIVATE longhaul_torch)
    endif()
    if(floor MATCHES test)
      target_link_libraries(${header} PRIVATE GTest::gmock GTest::gtest)
    endif()
    target_precompile_headers(${header} PRIVATE ${longhaul_header_${floor}})
    # What is in it, for the compiler cache: the same here and in every other clone.
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${header}.dir/cmake_pch.hxx.gch.sum
      "${longhaul_header_${floor}} ${CMAKE_CXX_COMPILER_VERSION} fmt ${fmt_VERSION} json ${nlohmann_json_VERSION} gtest ${GTest_VERSION} ${torch_version}")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${header})
endfunction()
