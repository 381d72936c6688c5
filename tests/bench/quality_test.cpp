// ctest: label=full timeout=300
// `bench quality`: its arithmetic on made-up runs, and tiny real ones: what it trains, and that a second
// start finds what the first has left.
#include "bench/models/quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "recipe/load.h"

namespace longhaul::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string value_of(const Overrides& overrides, const std::string& key) {
  for (const std::string& each : overrides) {
    if (each.starts_with(key + "=")) return each.substr(key.size() + 1);
  }
  return {};
}

TEST(Quality, MeansAndSpreads) {
  const Spread spread = spread_of({1, 2, 4, 5});  // squares of distances from 3: 4, 1, 1, 4
  EXPECT_EQ(spread.count, 4);
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt(10.0 / 3));
  EXPECT_DOUBLE_EQ(spread.error(), std::sqrt(10.0 / 3) / 2);
  EXPECT_EQ(spread_of({7}).deviation, 0);
  EXPECT_EQ(spread_of({7}).mean, 7);
  EXPECT_FALSE(std::isfinite(spread_of({}).mean));
}

TEST(Quality, TheLowestRateIsPickedAndTheEndsOfTheGridAreMarked) {
  const auto pick = [](std::vector<std::pair<double, double>> tried) { return picked(std::move(tried)); };
  EXPECT_EQ(pick({{1, 3.0}, {2, 2.5}, {4, 2.7}}).lr, 2);
  EXPECT_FALSE(pick({{1, 3.0}, {2, 2.5}, {4, 2.7}}).at_end);
  EXPECT_TRUE(pick({{1, 2.0}, {2, 2.5}, {4, 2.7}}).at_end);
  EXPECT_TRUE(pick({{1, 3.0}, {2, 2.5}, {4, 2.4}}).at_end);
  EXPECT_EQ(pick({{1, 3.0}, {2, kInfinite}, {4, std::nan("")}}).lr, 1);
  EXPECT_THROW(pick({{1, kInfinite}, {2, std::nan("")}}), Error);
}

TEST(Quality, EveryRunIsARecipeAndRowsHaveGrids) {
  QualityRequest request;
  std::set<std::string> names, grids;
  for (const RateGrid& grid : rate_grids(request.steps)) {
    EXPECT_TRUE(grids.insert(grid.name).second);
    EXPECT_TRUE(std::ranges::is_sorted(grid.rates)) << grid.name;
    for (const double lr : grid.rates)
      EXPECT_NO_THROW(recipe::load_defaults(overrides_of_run(request, grid.overrides, lr, 0))) << grid.name;
  }
  for (const QualityPart& part : quality_parts(request.steps)) {
    EXPECT_TRUE(names.insert(part.name).second);
    std::set<std::string> labels;
    for (const QualityRow& row : part.rows) {
      EXPECT_TRUE(labels.insert(row.label).second) << row.label;
      EXPECT_THAT(grids, Contains(row.grid));
      const Overrides overrides = overrides_of_run(request, row.overrides, 1e-3, 1);
      EXPECT_NO_THROW(recipe::load_defaults(overrides)) << part.name << " " << row.label;
      // Equal tokens, but where the title says otherwise.
      const auto tokens = std::stoll(value_of(overrides, "train.steps")) *
                          (part.name == "batch" && row.label != "adamw, one batch" ? 4 : 1);
      EXPECT_EQ(tokens, part.name == "states" ? 1000 : 600) << part.name << " " << row.label;
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"batch", "came", "optimizers", "outer", "rounds", "states"}));
}

TEST(Quality, WhatIsAskedForComesLast) {
  const QualityRequest request{.steps = 40, .overrides = {"train.steps=7", "model.hidden=24"}};
  const Overrides all = overrides_of_run(request, {"optim.name=lion", "optim.warmup_steps=0"}, 2e-3, 3);
  EXPECT_THAT(all, ::testing::UnorderedElementsAre("train.steps=7", "model.hidden=24", "optim.name=lion",
                                                   "optim.warmup_steps=0", "optim.lr=0.002", "train.seed=3",
                                                   "data.seed=3"));
}

// Made-up runs: bits are a bowl over the logarithm of the rate, lowest at 2.8e-3 (of the grid from 7e-4,
// which came has) or 2e-3 (adamw's), and a term of the seed that is the same for all optimizers. So spreads
// are those of the seeds' terms, and differences have none.
TEST(Quality, RowsAreOfPickedRatesAndOtherSeeds) {
  std::vector<Overrides> asked;
  const auto made_up = [&](const Overrides& overrides) {
    asked.push_back(overrides);
    const double lr = std::stod(value_of(overrides, "optim.lr")),
                 seed = std::stod(value_of(overrides, "train.seed"));
    const bool came = value_of(overrides, "optim.name") == "came",
               warm = value_of(overrides, "optim.warmup_steps") != "0";
    const double away = std::log2(lr / (came ? 2.8e-3 : 2e-3));
    RunFigures figures{.bits_per_byte = 2 + away * away + 0.1 * seed + (warm ? 0 : 0.5),
                       .worst_loss = seed,
                       .step_s = 0.01 * seed};
    if (!warm && value_of(overrides, "optim.beta3") == "0.9999" && seed == 2)
      figures.bits_per_byte = kInfinite;
    return figures;
  };
  const QualityRequest request{.parts = {"came"}, .steps = 600, .seeds = 3};
  const std::vector<QualityOfPart> parts = measure_quality(request, made_up);
  ASSERT_EQ(parts.size(), 1U);
  ASSERT_EQ(parts[0].rows.size(), 6U);
  const std::vector<QualityResult>& rows = parts[0].rows;
  EXPECT_EQ(rows[0].rate.lr, 2.8e-3);
  EXPECT_EQ(rows[0].rate.tried.size(), 4U);
  EXPECT_NEAR(rows[0].bits.mean, 2.2, 1e-12);  // seeds 1, 2, 3
  EXPECT_NEAR(rows[0].bits.deviation, 0.1, 1e-12);
  EXPECT_NEAR(rows[1].difference.mean, 0.5, 1e-12);  // no warm-up
  EXPECT_NEAR(rows[1].difference.deviation, 0, 1e-12);
  EXPECT_EQ(rows[1].worst_loss, 3);
  EXPECT_NEAR(rows[1].step_s, 0.02, 1e-12);
  EXPECT_EQ(rows[3].label, "beta3 0.9999, no warm-up");
  EXPECT_EQ(rows[3].diverged, 1);
  EXPECT_EQ(rows[3].difference.count, 2);
  EXPECT_NEAR(rows[3].bits.mean, 2.7, 1e-12);  // seeds 1 and 3
  EXPECT_EQ(static_cast<int64_t>(asked.size()), count_quality_runs(request));
  EXPECT_EQ(std::set<Overrides>(asked.begin(), asked.end()).size(), asked.size()) << "none is done twice";
  const std::string table = table_of(request, parts[0]).text(false);
  EXPECT_THAT(table, ::testing::AllOf(HasSubstr("1 of 3"), HasSubstr("+0.5000"), HasSubstr("2.2000")));
  const nlohmann::ordered_json json = to_json(request, parts[0], rows[3]);
  EXPECT_EQ(json["bits_per_byte"]["runs"][1], nullptr);
  EXPECT_EQ(json["diverged"], 1);
}

TEST(Quality, PartsShareRunsAndAnUnknownOneIsRefused) {
  int64_t runs = 0;
  const auto count = [&](const Overrides& overrides) {
    return ++runs, RunFigures{.bits_per_byte = value_of(overrides, "optim.lr") == "0.002" ? 1.0 : 2.0};
  };
  const QualityRequest both{.parts = {"outer", "rounds"}, .seeds = 2};
  measure_quality(both, count);
  // of both seeds: a rate of its own is here AdamW's too, which the count cannot know
  const int64_t alike = 3 * 2;
  EXPECT_EQ(runs, count_quality_runs(both) - alike);
  const int64_t outer = count_quality_runs({.parts = {"outer"}, .seeds = 2}),
                rounds = count_quality_runs({.parts = {"rounds"}, .seeds = 2});
  // The grid and the second seed of its best, synchronous AdamW, and rounds of twelve steps of local_sgd, co2
  // and delay_corrected.
  EXPECT_EQ(outer + rounds - runs, 4 + 1 + 2 * 4 + alike);
  EXPECT_THROW(measure_quality({.parts = {"optimisers"}}, count), Error);
}

// Rates beyond the grid while the last is the best; and one below a rate that another seed fails with.
TEST(Quality, RatesGoOnBeyondTheGridAndBackFromTheEdge) {
  const auto tried_with = [](double best, double fails_from) {
    const auto made_up = [=](const Overrides& overrides) {
      const double lr = std::stod(value_of(overrides, "optim.lr")),
                   seed = std::stod(value_of(overrides, "train.seed"));
      return RunFigures{.bits_per_byte =
                            seed == 2 && lr >= fails_from ? 100 : 2 + std::abs(std::log2(lr / best))};
    };
    return measure_quality({.parts = {"came"}, .seeds = 1}, made_up)[0].rows[0].rate;  // from 7e-4 to 5.6e-3
  };
  const PickedRate beyond = tried_with(1.12e-2, 1);
  EXPECT_DOUBLE_EQ(beyond.lr, 1.12e-2);
  EXPECT_EQ(beyond.tried.size(), 6U) << "two more, of which the second is worse";
  EXPECT_FALSE(beyond.at_end);
  EXPECT_DOUBLE_EQ(tried_with(1.12e-2, 5.6e-3).lr, 2.8e-3);
  EXPECT_FALSE(tried_with(1, 5.6e-3).at_end) << "what lies beyond was tried, and fails";
  EXPECT_EQ(tried_with(1, 1).tried.size(), 7U) << "no more than three";
  EXPECT_TRUE(tried_with(1, 1).at_end);
}

class QualityRuns : public ::testing::Test {
 protected:
  QualityRuns() {
    make_folders(folder_ / "text");
    for (int i = 0; i < 30; ++i) {
      std::ofstream file(folder_ / "text" / (std::to_string(i) + ".txt"));
      for (int j = 0; j < 30 + i % 7; ++j) file << "line " << j * i << " of file " << i << "\n";
    }
  }
  QualityRequest tiny(const std::string& part) const {
    return {.parts = {part},
            .steps = 4,
            .seeds = 1,
            .folder = folder_ / "results of the bench",
            .overrides = {"model.layers=2", "model.mixers=lightning,softmax", "model.hidden=16",
                          "model.heads=2", "model.kv_heads=2", "model.head_dim=8", "model.rotary_dim=4",
                          "model.intermediate=16", "model.vocabulary=257", "data.tokenizer=bytes",
                          "data.remove_copies=false", "data.source=" + (folder_ / "text").string(),
                          "data.cache=" + (folder_ / "cache").string(), "data.held_out_percent=20",
                          "train.sequence=16", "train.steps=4", "train.threads=1", "optim.warmup_steps=1"}};
  }
  TemporaryFolder folder_;
};

TEST_F(QualityRuns, TrainsKeepsAndFinds) {
  QualityRequest request = tiny("came");
  std::vector<RunFigures> first;
  const QualityRunner runner = quality_runner(request);
  const std::vector<QualityOfPart> parts = measure_quality(request, [&](const Overrides& overrides) {
    first.push_back(runner(overrides));
    return first.back();
  });
  for (const RunFigures& each : first) {
    EXPECT_GT(each.bits_per_byte, 0.5);
    EXPECT_LT(each.bits_per_byte, 9) << "about eight: nothing is learnt in four steps";
    EXPECT_EQ(each.tokens, 4 * 8 * 16);
    EXPECT_GT(each.step_s, 0);
    EXPECT_GT(each.worst_loss, 1);
    EXPECT_NEAR(each.state_bytes, 4, 1.5)
        << "CAME: a momentum, and a few numbers of rows and columns, which are many in matrices of 16";
  }
  EXPECT_TRUE(std::filesystem::is_empty(request.folder / "runs")) << "what has ended leaves numbers only";
  // All is found; what is not whole is made anew.
  constexpr int64_t kMark = 12345;
  int64_t kept = 0;
  bool torn = false;
  for (const auto& each : std::filesystem::directory_iterator(request.folder / "results")) {
    nlohmann::json json = nlohmann::json::parse(read_text(each.path()));
    if (!torn && value_of(json["overrides"].get<Overrides>(), "train.seed") == "1") {
      write_text_atomically(each.path(), "{\"overrides\"");
      torn = true;
      continue;
    }
    json["tokens"] = kMark, ++kept;
    write_text_atomically(each.path(), json.dump());
  }
  ASSERT_TRUE(torn);
  ASSERT_EQ(kept + 1, static_cast<int64_t>(first.size()));
  int64_t found = 0, trained = 0;
  const QualityRunner second = quality_runner(request);
  measure_quality(request, [&](const Overrides& overrides) {
    const RunFigures figures = second(overrides);
    ++(figures.tokens == kMark ? found : trained);
    return figures;
  });
  EXPECT_EQ(trained, 1);
  EXPECT_EQ(found, kept);
}

// Of each outer method and each kind of state one run.
TEST_F(QualityRuns, OuterLoopsAndNarrowStatesTrain) {
  for (const char* name : {"outer", "states", "batch"}) {
    const QualityRequest request = tiny(name);
    for (const QualityPart& part : quality_parts(request.steps)) {
      if (part.name != name) continue;
      for (const QualityRow& row : part.rows) {
        Overrides overrides = overrides_of_run(request, row.overrides, 1e-3, 1);
        overrides.emplace_back("optim.state_least=1");
        if (name == std::string("outer") && !value_of(overrides, "optim.outer").empty()) {
          std::erase_if(overrides,
                        [](const std::string& each) { return each.starts_with("optim.outer_every"); });
          overrides.emplace_back("optim.outer_every=2");
          if (value_of(overrides, "optim.outer") == "streaming")
            overrides.emplace_back("optim.outer_fragments=2");
        }
        const RunFigures figures = quality_runner(request)(overrides);
        EXPECT_FALSE(figures.diverged()) << row.label;
      }
    }
  }
}

TEST_F(QualityRuns, ARunThatComesToNoNumberIsToldAsDiverged) {
  QualityRequest request = tiny("optimizers");
  request.overrides.emplace_back("train.nonfinite_limit=1");
  const Overrides wild = {"optim.name=sgd", "optim.momentum=0", "optim.clip_norm=0",
                          "optim.schedule=constant"};
  for (const char* method : {"none", "local_sgd", "co2"}) {
    Overrides overrides = wild;
    overrides.push_back(std::string("optim.outer=") + method);
    if (method != std::string("none")) {
      for (const char* each : {"optim.outer_every=2", "parallel.ranks=4", "train.micro_batch=2"})
        overrides.emplace_back(each);
    }
    const RunFigures figures = quality_runner(request)(overrides_of_run(request, overrides, 100, 1));
    EXPECT_TRUE(figures.diverged() || figures.bits_per_byte > 20) << method << " " << figures.bits_per_byte;
  }
}

}  // namespace
}  // namespace longhaul::bench
