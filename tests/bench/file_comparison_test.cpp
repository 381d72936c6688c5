// Two outputs of `bench --json` side by side.
#include "bench/file_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Compare : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  const fs::path folder_ = fs::temp_directory_path() / ("longhaul-compare-" + std::to_string(::getpid()));
};

TEST_F(Compare, PairsResultsByNameShapeAndDtype) {
  const fs::path a = write(
      "a.json",
      R"({"name":"gemm","shape":"1,024","dtype":"bf16","milliseconds_forward":4.0,"machine":"small; 2 threads"})"
      "\n\n"
      R"({"name":"gemm","shape":"1,024","dtype":"fp32","milliseconds_forward":9.0})"
      "\n"
      R"({"name":"train","shape":[1,1024],"tokens_per_second":300.0})"
      "\n");
  const fs::path b = write(
      "b.json",
      R"({"name":"train","shape":[1,1024],"tokens_per_second":450.0})"
      "\n"
      R"({"name":"gemm","shape":"1,024","dtype":"bf16","milliseconds_forward":2.0,"machine":"large; 4 threads"})"
      "\n"
      R"({"name":"gemm","shape":"2,048","dtype":"bf16","milliseconds_forward":1.0})"
      "\n");
  const FileComparison comparison = compare_files(a, b);
  const std::vector<ComparedFigure>& found = comparison.figures;
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "train");
  EXPECT_EQ(found[0].shape, "[1,1024]");
  EXPECT_EQ(found[0].figure, "tokens_per_second");
  EXPECT_DOUBLE_EQ(found[0].times_faster(), 1.5);
  EXPECT_EQ(found[1].figure, "milliseconds_forward");
  EXPECT_DOUBLE_EQ(found[1].a, 4.0);
  EXPECT_DOUBLE_EQ(found[1].b, 2.0);
  EXPECT_DOUBLE_EQ(found[1].times_faster(), 2.0);
  EXPECT_THAT(comparison.remarks(),
              AllOf(HasSubstr("only in A: gemm, 1,024, fp32\n"), HasSubstr("only in B: gemm, 2,048, bf16\n"),
                    HasSubstr("other machines")));
}

TEST_F(Compare, RefusesWhatItCannotPair) {
  const fs::path gemm = write("gemm.json", R"({"name":"gemm","shape":"1,024","milliseconds_forward":4.0})");
  const fs::path copy = write("copy.json", R"({"name":"copy","shape":"1 GiB","milliseconds_forward":4.0})");
  const fs::path text = write("text.json", "benchmarks\n");
  const auto error_of = [](const fs::path& a, const fs::path& b) {
    try {
      compare_files(a, b);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of(gemm, copy), HasSubstr("no result in common"));
  EXPECT_THAT(error_of(gemm, text), HasSubstr("text.json:1"));
  EXPECT_THAT(error_of(gemm, folder_ / "nothing.json"), HasSubstr("nothing.json"));
}

}  // namespace
}  // namespace longhaul::bench
