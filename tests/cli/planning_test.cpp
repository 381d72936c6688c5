// ctest: label=multi timeout=200
// `longhaul plan` and `longhaul footprint` as a user types them: forms that scripts rely on, and what is
// refused.
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "cli/started_program.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Planning : public StartedProgram {
 protected:
  Planning() {
    write("gpt.toml",
          "version = 1\n[model]\npreset = \"megascale-175b\"\n[data]\nsource = "
          "[\"nowhere\"]\n[train]\nsequence = 2048\nbatch = 6144\nmicro_batch = 1\n");
  }
  nlohmann::json json_of(const std::vector<std::string>& words) const {
    const ProcessResult result = run(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output, nullptr, false);
  }
};

TEST_F(Planning, TellsLayoutsAndWhyOthersFell) {
  const auto parsed = json_of({"plan", path("gpt.toml"), "--cluster", "a100", "--gpus", "12288", "--json"});
  ASSERT_FALSE(parsed["best"].empty());
  for (const auto& plan : parsed["best"]) {
    for (const char* key : {"layout", "step_seconds", "mfu", "memory_bytes", "reasons"})
      EXPECT_TRUE(plan.contains(key)) << key;
    EXPECT_LE(plan["memory_bytes"].get<double>(), 80e9);
  }
  EXPECT_LT(parsed["search_seconds"].get<double>(), 5);
  EXPECT_FALSE(parsed["rejected"].empty());
  EXPECT_GT(parsed["goodput"]["effective_share"].get<double>(), 0.8);
  const auto explained = json_of(
      {"plan", "explain", path("gpt.toml"), "--cluster", "a100", "--gpus", "64", "train.batch=64", "--json"});
  EXPECT_TRUE(explained["plan"].contains("step_seconds_by_part"));
  EXPECT_FALSE(explained["changes"].empty());
  EXPECT_THAT(run({"plan", path("gpt.toml"), "--gpus", "64", "--cluster", "a100"}).output,
              AllOf(HasSubstr("why others fell"), HasSubstr("MFU")));
}

TEST_F(Planning, WritesTheStepOfTheFastestLayoutAsATrace) {
  const auto plan = json_of({"plan", path("gpt.toml"), "--cluster", "a100", "--gpus", "64", "train.batch=64",
                             "--trace", path("out/step.json"), "--json"});
  const auto trace = nlohmann::json::parse(read_text(path("out/step.json")));
  double last = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X")
      last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  const auto& best = plan["best"][0];
  EXPECT_NEAR(1e-6 * last / best["step_seconds"].get<double>(), 1, 0.05)
      << "formulas and the played schedule differ by messages that overlap";
  EXPECT_EQ(run({"plan", path("gpt.toml"), "--cluster", "a100", "--gpus", "64", "train.batch=64", "--trace",
                 path("out/step.pftrace")})
                .status,
            0);
  EXPECT_EQ(read_text(path("out/step.pftrace")).front(), '\x0a');
}

TEST_F(Planning, PagesToLookAt) {
  ASSERT_EQ(run({"plan", path("gpt.toml"), "--cluster", "a100", "--gpus", "64", "train.batch=64", "--page",
                 path("plan.html")})
                .status,
            0);
  EXPECT_THAT(read_text(path("plan.html")),
              AllOf(HasSubstr("Time of a step"), HasSubstr("Memory of the fullest rank"),
                    HasSubstr("Why others fell"), HasSubstr("<svg")));
  ASSERT_EQ(run({"plan", "validate", "--page", path("validate.html")}).status, 0);
  EXPECT_THAT(read_text(path("validate.html")),
              AllOf(HasSubstr("Published and predicted steps"), HasSubstr("Llama 3"), HasSubstr("<circle")));
}

// Every power of two up to the number that was asked for is planned or told as impossible.
TEST_F(Planning, SizesByCarbon) {
  write("small.toml",
        "version = 1\n[model]\npreset = \"gpt2-124m\"\n[data]\nsource = "
        "[\"nowhere\"]\n[train]\nsequence = 1024\nbatch = 64\nmicro_batch = 1\n");
  const auto parsed = json_of(
      {"plan", "sizes", path("small.toml"), "--cluster", "a100", "--gpus", "13", "--by", "carbon", "--json"});
  EXPECT_EQ(parsed["sizes"].size() + parsed["impossible"].size(), 5u) << "1, 2, 4, 8, 13";
  EXPECT_EQ(parsed["impossible"], nlohmann::json::array({13})) << "13 divides nothing";
  double before = 0;
  for (const auto& size : parsed["sizes"]) {
    EXPECT_GE(size["carbon_kg"].get<double>(), before);
    before = size["carbon_kg"].get<double>();
  }
  EXPECT_THAT(run({"plan", "sizes", path("small.toml"), "--gpus", "8"}).output,
              AllOf(HasSubstr("the least days first"), HasSubstr("devices")));
  expect_error(run({"plan", "sizes", path("small.toml"), "--by", "price"}), 64, "price_per_gpu_hour");
  expect_error(run({"plan", "sizes", path("small.toml"), "--by", "beauty"}), 64, "beauty");
}

TEST_F(Planning, ValidatesRowByRow) {
  const auto parsed = json_of({"plan", "validate", "--json"});
  EXPECT_GE(parsed["rows"].size(), 50u);
  for (const auto& row : parsed["rows"]) {
    for (const char* key : {"name", "published", "predicted", "error", "held_out"})
      EXPECT_TRUE(row.contains(key)) << key;
  }
}

TEST_F(Planning, RefusesWhatIsWrong) {
  expect_error(run({"plan"}), 64, "plan recipes/first-run.toml");
  expect_error(run({"plan", path("gpt.toml"), "--cluster", "h10"}), 64, "h100");
  expect_error(run({"plan", path("gpt.toml"), "--cluster", path("none.toml")}), 64, "none.toml");
  expect_error(run({"plan", "explain", path("gpt.toml"), "--own", "--gpus", "7", "train.batch=8"}), 64,
               "batch 8");
  expect_error(run({"plan", path("gpt.toml"), "--gpus", "0"}), 64, "--gpus");
  expect_error(run({"footprint", "plan"}), 64, "--flops");
  expect_error(run({"footprint", "plan", "--flops", "1e20", "--gpus", "0"}), 64, "--gpus");
  expect_error(run({"footprint", "plan", "--flops", "1e20", "--pue", "0.5"}), 64,
               "facility energy over machine energy from 1 to 10");
  expect_error(run({"footprint", "plan", "--flops", "1e20", "--grid", "coal", "--carbon", "5"}), 64,
               "told twice");
  expect_error(run({"footprint", "run", path("no-run")}), 65, "no-run");
  // −1 is a value like others, and wrong; it once stood for "not given".
  for (const char* option : {"--pue=-1", "--carbon=-1", "--market-carbon=-1", "--water-on-site=-1",
                             "--water-grid=-1", "--tokens=-1"})
    expect_error(run({"footprint", "plan", "--flops", "1e20", option}), 64,
                 std::string(option).substr(0, std::string(option).find('=')));
  expect_error(run({"footprint", "plan", "--flops=-1"}), 64, "--flops cannot be that");
  expect_error(run({"footprint", "plan", "--parameters=-1", "--tokens", "1"}), 64,
               "--parameters cannot be that");
}

// `plan` and `footprint plan` of one recipe are of one device where none is named.
TEST_F(Planning, FootprintOfARecipeIsOfThePlansDevice) {
  EXPECT_EQ(json_of({"footprint", "plan", path("recipe.toml"), "--json"}),
            json_of({"footprint", "plan", path("recipe.toml"), "--device", "h100", "--json"}));
  EXPECT_EQ(json_of({"footprint", "plan", "--flops", "1e20", "--json"}),
            json_of({"footprint", "plan", "--flops", "1e20", "--device", "a100", "--json"}));
}

TEST_F(Planning, FootprintOfFlops) {
  const auto parsed =
      json_of({"footprint", "plan", "--flops", "1.7316e25", "--out", path("page.html"), "--json"});
  EXPECT_EQ(parsed["a100_gpus"], 2515);
  EXPECT_EQ(parsed["grid"]["gpus"][0][0], 8800);
  EXPECT_THAT(read_text(path("page.html")), AllOf(HasSubstr("<svg"), HasSubstr("2,515")));
  EXPECT_EQ(run({"footprint", "tables"}).status, 0);
}

}  // namespace
}  // namespace longhaul::cli
