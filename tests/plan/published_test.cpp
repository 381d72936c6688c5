// Steps that others have published beside predicted ones: how far plans can be trusted, and that every row
// says what it is.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "plan/validation_report.h"

namespace longhaul::plan {
namespace {

std::vector<PublishedRow> judged_rows(bool dense, const std::string& device) {
  std::vector<PublishedRow> rows;
  for (const PublishedRow& row : published_rows()) {
    if (row.judged() && row.dense == dense && (device.empty() || row.cluster.device.name == device))
      rows.push_back(row);
  }
  return rows;
}

// What is asked of dense rows of A100s (4 and 10 %) holds; with Llama 3's, of H100s, the mean is a hair
// above.
TEST(Published, HeldOutRowsThatPlansAreTrustedBy) {
  const Errors a100 = errors_of(judged_rows(true, "a100")), dense = errors_of(judged_rows(true, "")),
               experts = errors_of(judged_rows(false, ""));
  EXPECT_EQ(a100.rows, 29);
  EXPECT_LE(a100.mean, 0.04);
  EXPECT_LE(a100.worst, 0.10);
  EXPECT_EQ(dense.rows, 32) << "MegaScale, Narayanan beside ZeRO-3, Llama 3";
  EXPECT_LE(dense.mean, 0.042);
  EXPECT_LE(dense.worst, 0.10);
  EXPECT_EQ(experts.rows, 60);
  EXPECT_LE(experts.mean, 0.10) << "the goal";
  EXPECT_LE(experts.worst, 0.35);
  std::vector<PublishedRow> pipelines;
  for (const PublishedRow& row : judged_rows(false, "")) {
    if (row.layout.pp > 1) pipelines.push_back(row);
  }
  EXPECT_EQ(pipelines.size(), 44u);
  EXPECT_LE(errors_of(pipelines).mean, 0.077);
}

// Weights cut over data ranks, over 1 to 280 nodes: what ZeRO-3 and FSDP took in three papers.
TEST(Published, StepsWhoseWeightsAreCutOverDataRanks) {
  std::map<std::string, std::vector<PublishedRow>> by_paper;
  std::vector<PublishedRow> all;
  for (const PublishedRow& row : published_rows()) {
    if (row.layout.zero < 3) continue;
    by_paper[row.family.substr(0, row.family.find_first_of(":,"))].push_back(row);
    all.push_back(row);
  }
  EXPECT_EQ(all.size(), 46u);
  EXPECT_LE(errors_of(all).mean, 0.15);
  ASSERT_EQ(by_paper.size(), 3u);
  for (const auto& [paper, rows] : by_paper) EXPECT_LE(errors_of(rows).mean, 0.16) << paper;
}

// Layouts of one model on as many devices, for the same batch: the planner's order is the published one.
TEST(Published, PairsStandInTheirPublishedOrder) {
  const std::vector<PublishedPair> pairs = published_pairs();
  EXPECT_GT(pairs.size(), 60u);
  int64_t shards_and_pipelines = 0;
  for (const PublishedPair& pair : pairs) {
    const bool experts_of_tensor_ranks =
        !pair.slower->dense && pair.slower->layout.zero < 3 && pair.slower->layout.pp == 1 &&
        pair.slower->work.expert_count == 64 && pair.faster->layout.zero >= 3;
    // 64 experts cut over tensor ranks without a pipeline are planned up to 26 % too fast, as products of
    // their size have no efficiency of their own; of FSDP beside them, published to be 3 to 22 % faster, the
    // order is not known.
    if (experts_of_tensor_ranks) {
      EXPECT_FALSE(clearly_apart(pair)) << pair.slower->name;
      continue;
    }
    EXPECT_TRUE(in_published_order(pair)) << pair.faster->family << ": " << pair.faster->name << " before "
                                          << pair.slower->family << ": " << pair.slower->name;
    shards_and_pipelines += pair.slower->layout.zero >= 3 && pair.faster->layout.zero < 3 ? 1 : 0;
  }
  EXPECT_GT(shards_and_pipelines, 20) << "ZeRO-3 behind tensor ranks and pipelines";
}

// `plan validate` fails where a search was beaten, and a row says what it proves.
TEST(Published, WhatValidationDemands) {
  SearchCheck fine{.model = "a model"}, beaten = fine;
  beaten.faster = Change{.what = "ep 2"};
  EXPECT_TRUE(validation_holds({}));
  EXPECT_TRUE(validation_holds({fine, fine}));
  EXPECT_FALSE(validation_holds({fine, beaten}));
  std::map<std::string, int64_t> uses;
  for (const PublishedRow& row : published_rows()) ++uses[use_text(row)];
  EXPECT_EQ(uses["held out, apart"], 8) << "MT-NLG, README rows of unknown stages";
  EXPECT_EQ(uses["constants fitted on"], 21);
  EXPECT_EQ(uses["reach fitted on"], 8);
  EXPECT_EQ(uses["overlap fitted on"], 17);
  for (const PublishedRow& row : published_rows()) {
    const bool seen = row.family == "Llama 3" || (row.layout.zero >= 3 && row.use == RowUse::kHeldOut) ||
                      (!row.dense && row.layout.pp > 1) || row.assumed.ends_with("windows of 1,024");
    EXPECT_EQ(use_text(row) == "held out, in sight", seen) << row.family << ": " << row.name;
  }
}

// Of five methods (arXiv 2504.14960, table 1) the folded one is the fastest of each model.
TEST(Published, TheBestOfFiveMethods) {
  std::map<std::string, std::pair<double, std::string>> best;
  for (const PublishedRow& row : published_rows()) {
    if (!row.family.starts_with("Parallel folding") || row.batch != 256 || row.work.sequence != 4096)
      continue;
    const std::string model = row.name.substr(0, row.name.find(','));
    const double seconds = predicted(row);
    if (!best.contains(model) || seconds < best[model].first) best[model] = {seconds, row.name};
  }
  ASSERT_EQ(best.size(), 4u);
  for (const auto& [model, row] : best) EXPECT_EQ(row.second, model + ", folded");
}

TEST(Published, ErrorsAreMeanAndWorst) {
  std::vector<PublishedRow> rows(published_rows().begin(), published_rows().begin() + 3);
  const double asked[] = {1.25, 0.5, 1.1};
  for (size_t i = 0; i < 3; ++i) rows[i].seconds = predicted(rows[i]) / asked[i];
  const Errors errors = errors_of(rows);
  EXPECT_EQ(errors.rows, 3);
  EXPECT_NEAR(errors.mean, (0.25 + 0.5 + 0.1) / 3, 1e-12);
  EXPECT_NEAR(errors.worst, 0.5, 1e-12);
}

TEST(Published, EveryRowSaysWhatItIs) {
  const auto json = validation_json({});
  EXPECT_EQ(json["rows"].size(), published_rows().size());
  std::set<std::string> names;
  for (const auto& row : json["rows"]) {
    for (const char* key : {"name", "published", "predicted", "error", "held_out", "use", "source", "assumed",
                            "predicted_least"})
      EXPECT_TRUE(row.contains(key)) << key;
    names.insert(row["name"]);
    EXPECT_LE(row["predicted_least"], row["predicted"]);
    EXPECT_GE(row["predicted_most"], row["predicted"]);
  }
  EXPECT_EQ(names.size(), published_rows().size()) << "no name twice";
  for (const PublishedRow& row : published_rows()) {
    EXPECT_EQ(row.batch % (row.layout.dp * row.layout.micro_batch), 0) << row.name;
    EXPECT_EQ(row.layout.world() % (row.layout.ep * row.layout.etp * row.layout.pp), 0) << row.name;
    EXPECT_TRUE(row.layout.chunks == 1 || row.layout.micro_batches(row.batch) % row.layout.pp == 0)
        << row.name;
  }
}

// Of a step with few stages a rank the published time of each README row with a pipeline lies between those
// of one stage and of one layer a stage.
TEST(Published, RowsOfUnknownStagesAreRanges) {
  int64_t ranges = 0, inside = 0;
  for (const PublishedRow& row : published_rows()) {
    if (row.family != "Megatron-LM, H100" || row.layout.pp == 1) continue;
    ++ranges;
    EXPECT_FALSE(row.judged());
    const auto [least, most] = predicted_range(row);
    inside += least <= row.seconds && row.seconds <= most ? 1 : 0;
  }
  EXPECT_EQ(ranges, 5);
  EXPECT_EQ(inside, 5);
  for (PublishedRow row : published_rows()) {
    if (row.family != "Megatron-LM, H100" || row.layout.pp == 1) continue;
    const double most = predicted_range(row).second;
    row.layout.chunks = 1;
    row.layout.schedule = recipe::PipelineSchedule::k1F1B;
    // with one stage a rank there is nothing to do while a message is on its way
    row.practice.pipeline_exposed = 1;
    EXPECT_GE(most, predicted(row) * (1 - 1e-12)) << row.name;
  }
}

}  // namespace
}  // namespace longhaul::plan
