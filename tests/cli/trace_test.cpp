// ctest: label=multi timeout=200
// `longhaul trace` on runs as a user makes them: what is recorded changes nothing, is whole, and its absence
// is said.
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/file.h"
#include "cli/started_program.h"
#include "support/text.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Trace : public StartedProgram {
 protected:
  Trace() {
    write("tiny.toml",
          "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 2\nhead_dim = 16\nvocabulary "
          "= 257\n"
          "mixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n[data]\nsource = [\"" +
              path("texts") +
              "\"]\ntokenizer = \"bytes\"\nheld_out_percent = 20\n[train]\nsteps = 4\ndtype = "
              "\"fp32\"\nbatch = 4\nmicro_batch = 1\nsequence = 32\n"
              "evaluate_every = 2\nevaluate_tokens = 64\ncheckpoint_every = 2\nthreads = "
              "2\n[optim]\nwarmup_steps = 1\n[sample]\ntokens = 0\n"
              "[observe]\ncompression_baseline = false\ntensorboard = false\n[parallel]\npp = 2\n");
  }
  ProcessResult train(const std::string& run_folder, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train", path("tiny.toml"), "--run", path(run_folder)};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(Trace, ARunThatIsRecordedIsTheSameRun) {
  for (const auto& [name, key] :
       {std::pair("plain", "observe.trace_every=0"), {"traced", "observe.trace_every=1"}}) {
    const ProcessResult trained = train(name, {key});
    ASSERT_EQ(trained.status, 0) << trained.errors;
  }
  const ProcessResult compared = run({"compare", path("plain"), path("traced")});
  EXPECT_EQ(compared.status, 0) << compared.output << "losses, norms and checkpoints, to the bit";
  expect_error(run({"trace", path("plain")}), 65, "observe.trace_every=10");
  const std::string plain = read_text(path("plain/report.html")),
                    traced = read_text(path("traced/report.html"));
  EXPECT_EQ(testing::count_of(plain, " of micro-batch "), 16u)
      << "4 micro-batches, forward and backward on 2 ranks, as simulated";
  EXPECT_THAT(plain, HasSubstr("No step was recorded"));
  const auto boxes = [](const std::string& html) { return testing::count_of(html, "<rect class=\"box "); };
  EXPECT_EQ(boxes(traced) - boxes(plain), 16u) << "and as measured";
}

TEST_F(Trace, IsWholeForEveryRank) {
  const ProcessResult trained = train("run", {"observe.trace_every=2"});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const ProcessResult traced = run({"trace", path("run"), "--out", path("out/trace.json")});
  ASSERT_EQ(traced.status, 0) << traced.errors;
  EXPECT_THAT(traced.output, AllOf(HasSubstr("communication exposed"), HasSubstr("Means of 2 steps"),
                                   HasSubstr("All ranks have one clock")));
  std::set<int64_t> ranks, steps;
  std::map<std::pair<int64_t, int64_t>, int> passes;  // by rank and step
  std::set<std::string> names;
  const nlohmann::json trace = nlohmann::json::parse(read_text(path("out/trace.json")));
  for (const auto& event : trace.at("traceEvents")) {
    ranks.insert(event.at("pid").get<int64_t>());
    if (event.at("ph") != "X") continue;
    names.insert(event.at("name"));
    steps.insert(event.at("args").at("step").get<int64_t>());
    if (event.at("args").contains("micro_batch")) ++passes[{event.at("pid"), event.at("args").at("step")}];
  }
  EXPECT_EQ(ranks, (std::set<int64_t>{0, 1}));
  EXPECT_EQ(steps, (std::set<int64_t>{2, 4}));
  for (const int64_t rank : ranks) EXPECT_GE((passes[{rank, 4}]), 8);
  for (const char* const name :
       {"step 2", "forward 3", "backward 0", "optimizer", "norm", "data", "checkpoint copy",
        "checkpoint of step 2 to the disk", "evaluation", "all_reduce: loss",
        "exchange: hidden states of micro-batch 1 from stage 0"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }

  ASSERT_EQ(run({"trace", path("run"), "--out", path("out/trace.pftrace")}).status, 0);
  const std::string packets = read_text(path("out/trace.pftrace"));
  EXPECT_EQ(packets.front(), '\x0a') << "field 1: a packet";
  EXPECT_LT(packets.size(), std::filesystem::file_size(path("out/trace.json")));
  EXPECT_THAT(packets, HasSubstr("exchange: hidden states of micro-batch 1 from stage 0"));

  const ProcessResult sums = run({"trace", path("run"), "--steps", "4", "--json"});
  ASSERT_EQ(sums.status, 0) << sums.errors;
  const nlohmann::json of_ranks = nlohmann::json::parse(sums.output).at("ranks");
  ASSERT_EQ(of_ranks.size(), 2u);
  for (const auto& rank : of_ranks) {
    EXPECT_EQ(rank.at("steps"), 1);
    EXPECT_EQ(rank.at("busy_ns").get<int64_t>() + rank.at("exposed_ns").get<int64_t>() +
                  rank.at("idle_ns").get<int64_t>(),
              rank.at("wall_ns").get<int64_t>());
    EXPECT_GT(rank.at("busy_ns").get<int64_t>(), 0);
    EXPECT_GE(rank.at("idle_ns").get<int64_t>(), 0);
  }
  const ProcessResult beside =
      run({"trace", path("run"), "--planned", "--json", "--out", path("out/beside.json")});
  ASSERT_EQ(beside.status, 0) << beside.errors;
  const nlohmann::json both = nlohmann::json::parse(beside.output);
  EXPECT_EQ(
      both.at("ranks"),
      nlohmann::json::parse(run({"trace", path("run"), "--json", "--out", path("out/again.json")}).output)
          .at("ranks"));
  ASSERT_EQ(both.at("planned").size(), 2u);
  for (const auto& rank : both.at("planned")) {
    EXPECT_EQ(rank.at("busy_ns").get<int64_t>() + rank.at("exposed_ns").get<int64_t>() +
                  rank.at("idle_ns").get<int64_t>(),
              rank.at("wall_ns").get<int64_t>());
  }
  const nlohmann::json one_file = nlohmann::json::parse(read_text(path("out/beside.json")));
  std::set<std::string> processes;
  std::map<int64_t, double> begins;  // of step 4
  for (const auto& event : one_file.at("traceEvents")) {
    if (event.at("name") == "process_name") processes.insert(event.at("args").at("name"));
    if (event.at("name") == "step 4") begins[event.at("pid")] = event.at("ts");
  }
  EXPECT_THAT(processes, ::testing::IsSupersetOf({"rank 1 (pp 1, dp 0, cp 0, tp 0)",
                                                  "rank 1 as planned (pp 1, dp 0, cp 0, tp 0)"}));
  ASSERT_EQ(begins.size(), 4u);
  EXPECT_NEAR(begins.at(1'000'000), std::min(begins.at(0), begins.at(1)), 1)
      << "microseconds: they lie beside each other";

  expect_error(run({"trace", path("run"), "--steps", "3"}), 65, "2 to 4");
  expect_error(run({"trace", path("run"), "--steps", "4-2"}), 64, "--steps 20-40");
}

TEST_F(Trace, OneProcessHasOneToo) {
  const ProcessResult trained = train("alone", {"parallel.pp=1", "observe.trace_every=4"});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const ProcessResult traced = run({"trace", path("alone"), "--json"});
  ASSERT_EQ(traced.status, 0) << traced.errors;
  const auto ranks = nlohmann::json::parse(traced.output).at("ranks");
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].at("exposed_ns"), 0);
}

}  // namespace
}  // namespace longhaul::cli
