// ctest: label=full timeout=600
// The plan of memory of one rank of a mesh beside what its allocator counts: ranks that are processes train
// small models, and each tells by purpose what was planned and what was its most.
#include "plan/memory/exact_memory.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/files/temporary_folder.h"
#include "base/net/network.h"
#include "base/progress.h"
#include "comm/placement.h"
#include "comm/world.h"
#include "observe/events/event_log.h"
#include "run/language_run.h"
#include "run/words.h"
#include "support/child.h"
#include "support/nightly.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWords = "LONGHAUL_TEST_RANK_MEMORY";  // the words of a rank's recipe, between commas

// A rank, in a process that the tests below start.
TEST(RankMemoryBody, Trains) {
  const char* const text = std::getenv(kWords);
  if (text == nullptr) GTEST_SKIP() << "runs in the processes that the tests of RankMemory start";
  install_cpu_allocator();
  Words words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ';');) words.push_back(word);
  const fs::path run = words.back();
  words.pop_back();
  const auto world = comm::join_world();
  run_training({.recipe = recipe::load_defaults(words), .run_folder = run, .quiet = true}, world.get());
}

const std::map<std::string, Words> kModels = {
    {"dense", {"model.experts=0", "model.intermediate=384"}},
    {"experts", {"model.experts=4", "model.experts_per_token=2", "model.intermediate=192"}},
    {"softmax", {"model.experts=0", "model.intermediate=384", "model.mixers=softmax"}},
    {"attention", {"model.experts=0", "model.channel=none", "model.mixers=softmax"}},
};

class RankMemory : public ::testing::Test {
 protected:
  RankMemory() {
    fs::create_directories(folder_ / "text");
    std::ofstream file(folder_ / "text" / "some.txt");  // one document, far longer than a sequence
    for (int i = 0; i < 40000; ++i) file << "line " << i * 7 << " of a file\n";
  }

  // Of each rank, by purpose.
  std::vector<std::map<std::string, observe::MeasuredMemory>> trained(const std::string& name, int ranks,
                                                                      const Words& more) {
    const fs::path run = folder_ / name;
    const Words words = Words{"model.layers=4",
                              "model.mixers=lightning,softmax",
                              "model.hidden=128",
                              "model.heads=4",
                              "model.kv_heads=2",
                              "model.head_dim=32",
                              "model.rotary_dim=16",
                              "model.vocabulary=700",
                              "data.tokenizer=bytes",
                              "data.source=" + (folder_ / "text").string(),
                              "data.cache=" + (folder_ / "cache").string(),
                              "train.steps=2",
                              "train.checkpoint_every=0",
                              "train.evaluate_every=0",
                              "train.threads=1",
                              "train.batch=4",
                              "train.micro_batch=2",
                              "train.sequence=1024",
                              "sample.tokens=0",
                              "observe.compression_baseline=false",
                              "observe.tensorboard=false",
                              "observe.report=false"} +
                        more + Words{run.string()};
    const uint16_t port = free_port();
    std::vector<std::unique_ptr<Child>> processes;
    for (int rank = 0; rank < ranks; ++rank) {
      Words environment = comm::environment_of_rank(rank, ranks, port);
      environment.push_back(fmt::format("{}={}", kWords, fmt::join(words, ";")));
      processes.push_back(std::make_unique<Child>(
          Words{fs::read_symlink("/proc/self/exe").string(), "--gtest_filter=RankMemoryBody.*"}, environment,
          folder_ / fmt::format("{}-{}.log", name, rank)));
    }
    std::vector<std::map<std::string, observe::MeasuredMemory>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(processes[static_cast<size_t>(rank)]->wait(), 0)
          << processes[static_cast<size_t>(rank)]->output();
      auto& rows = all.emplace_back();
      const fs::path events =
          rank == 0 ? run / "events.jsonl" : run / "events" / fmt::format("rank-{}.jsonl", rank);
      if (!fs::exists(events)) continue;
      for (const auto& event : observe::read_events(events)) {
        if (const auto* row = std::get_if<observe::MeasuredMemory>(&event.body)) rows[row->purpose] = *row;
      }
    }
    return all;
  }

  void expect_planned(const std::string& name, int ranks, const Words& more, double of_all,
                      double of_purpose) {
    const auto all = trained(name, ranks, more);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto together = all[rank].find("together");
      ASSERT_NE(together, all[rank].end()) << name << ": rank " << rank << " tells nothing";
      const auto total = static_cast<double>(together->second.peak_bytes);
      for (const auto& [purpose, row] : all[rank]) {
        if (!row.planned_bytes) continue;
        const auto planned = static_cast<double>(*row.planned_bytes),
                   counted = static_cast<double>(row.peak_bytes);
        if (std::getenv("LONGHAUL_TELL") != nullptr) {
          fmt::print("{:<34} rank {} {:<16} planned {:>10.0f} counted {:>10.0f}  {:+.1f} %\n", name, rank,
                     purpose, planned, counted, counted > 0 ? 100 * (planned - counted) / counted : 0);
        }
        // Only a purpose of weight has to come near; and a pipeline may hold one gradient of hidden states
        // more or less than planned, as its peer takes it.
        if (std::max(planned, counted) < 0.05 * total) continue;
        // The parts of a sum between processes, of at most a layer's gradients here, are there or not when
        // all is fullest.
        const double sum = purpose == "together" || purpose == "workspace" ? 1.5e6 : 0;
        EXPECT_NEAR(planned, counted, (purpose == "together" ? of_all : of_purpose) * counted + sum)
            << name << ", rank " << rank << ": " << purpose << ", " << bytes_text(*row.planned_bytes)
            << " planned, " << bytes_text(row.peak_bytes) << " counted";
      }
    }
  }

  TemporaryFolder folder_;
};

// A layout of ranks and what is done with activations in it; `models`: that have it. The suite takes the ones
// that tell most of each, of one model and in one precision; nightly.whole_rank_memory takes all of both.
struct Case {
  std::string name;
  int ranks;
  Words words;
  std::string models = "dense experts";
  std::string in_suite{};  // "dense bf16"; empty: at night only
};

// Every token goes to every expert: ranks of experts get equally many rows, whatever a router says.
const Words kAllExperts = {"model.experts_per_token=4"};
const Words kPipeline = {"parallel.pp=2", "train.micro_batch=1"};

std::vector<Case> of_axes() {
  return {{"dp2", 2, {}, "dense experts", "experts bf16"},
          {"dp2 zero1", 2, {"parallel.zero=1"}, "dense experts", "dense bf16"},
          {"dp2 zero2", 2, {"parallel.zero=2"}, "dense experts", "experts fp32"},
          {"dp2 zero3", 2, {"parallel.zero=3"}, "dense experts", "dense bf16"},
          {"dp4 zero3 saved on the way",
           4,
           {"parallel.zero=3", "train.checkpoint_every=1", "train.micro_batch=1"},
           "dense",
           "dense fp32"},
          {"dp2 zero1 muon", 2, {"parallel.zero=1", "optim.name=muon"}, "dense experts", "dense bf16"},
          {"tp2", 2, {"parallel.tp=2"}, "dense experts", "dense bf16"},
          // copies of them: products that are joined
          {"tp4 of two key heads", 4, {"parallel.tp=4"}, "dense", "dense bf16"},
          {"cp2", 2, {"parallel.cp=2"}, "dense experts", "dense fp32"},
          {"pp2", 2, kPipeline, "dense experts", "experts fp32"},
          {"ep2", 2, kAllExperts + Words{"parallel.ep=2"}, "experts", "experts bf16"}};
}

// Softmax attention alone, with channel mixers and without: with as many key heads as heads, with fewer, with
// copies of them.
std::vector<Case> of_softmax() {
  std::vector<Case> cases;
  for (const int ranks : {2, 4}) {
    for (const int kv_heads : {1, 2, 4}) {
      for (const std::string recompute : {"none", "selective", "full"}) {
        const Words words = {fmt::format("parallel.tp={}", ranks), fmt::format("model.kv_heads={}", kv_heads),
                             "model.head_dim=64", "train.recompute=" + recompute};
        const bool tells = recompute == "none" && kv_heads != 1;
        cases.push_back({fmt::format("tp{} of {} key heads, {}", ranks, kv_heads, recompute), ranks, words,
                         "softmax attention",
                         !tells          ? ""
                         : kv_heads == 4 ? "softmax bf16"
                         : ranks == 2    ? "attention fp32"
                                         : "attention bf16"});
      }
    }
  }
  return cases;
}

std::vector<Case> of_dispatchers() {
  std::vector<Case> cases;
  for (const std::string dispatcher : {"all-to-all", "all-gather", "flex"}) {
    const auto add = [&](const std::string& name, int ranks, const Words& words,
                         const std::string& in_suite) {
      cases.push_back({name + " " + dispatcher, ranks,
                       kAllExperts + Words{"parallel.dispatcher=" + dispatcher} + words, "experts",
                       in_suite});
    };
    const bool travels = dispatcher != "all-to-all";
    add("ep2", 2, {"parallel.ep=2"}, travels ? "experts bf16" : "");
    add("etp2", 2, {"parallel.etp=2"}, travels ? "experts fp32" : "");
    add("ep2 etp2", 4, {"parallel.ep=2", "parallel.etp=2"}, "");
    add("ep2 selective", 2, {"parallel.ep=2", "train.recompute=selective"},
        dispatcher == "all-gather" ? "experts bf16" : "");
    add("ep2 full", 2, {"parallel.ep=2", "train.recompute=full"}, "");
  }
  return cases;
}

std::vector<Case> of_recomputation() {
  std::vector<Case> cases;
  for (const std::string recompute : {"selective", "full"}) {
    cases.push_back({"tp2 one layer " + recompute,
                     2,
                     {"parallel.tp=2", "train.recompute=" + recompute, "train.recompute_layers=1"},
                     "dense",
                     "dense bf16"});
  }
  for (const std::string recompute : {"selective", "tokens", "full"}) {
    const bool full = recompute == "full";
    const auto add = [&](const std::string& name, const Words& words, const std::string& models,
                         const std::string& in_suite) {
      cases.push_back({name + " " + recompute, name.starts_with("tp4") ? 4 : 2,
                       words + Words{"train.recompute=" + recompute}, models, in_suite});
    };
    add("dp2", {}, "dense experts", full ? "dense bf16" : "");
    add("tp2", {"parallel.tp=2"}, "dense experts", full ? "" : "experts bf16");
    add("tp4 of two key heads", {"parallel.tp=4"}, "dense", "");
    add("cp2", {"parallel.cp=2"}, "dense", recompute != "selective" ? "dense bf16" : "");
    add("pp2", kPipeline, "dense", full ? "dense bf16" : "");
    add("ep2", kAllExperts + Words{"parallel.ep=2"}, "experts",
        recompute == "selective" ? "experts fp32" : "");
  }
  return cases;
}

std::vector<Case> of_offload() {
  std::vector<Case> cases;
  for (const std::string recompute : {"none", "selective", "full"}) {
    for (const bool tp : {false, true}) {
      const Words words = {"train.offload=file", "train.recompute=" + recompute,
                           fmt::format("parallel.tp={}", tp ? 2 : 1)};
      const bool tells = tp && recompute == "full";
      cases.push_back({fmt::format("{} {} offload", tp ? "tp2" : "dp2", recompute), 2, words, "dense",
                       tells ? "dense bf16" : ""});
    }
  }
  return cases;
}

std::vector<Case> of_schedules() {
  std::vector<Case> cases;
  for (const std::string schedule : {"gpipe", "interleaved", "zb-h1", "zbv", "dualpipe"}) {
    Words words = {"parallel.schedule=" + schedule, "train.micro_batch=1"};
    if (schedule == "interleaved") words.push_back("parallel.chunks=2");
    const Words of_two = words + Words{"parallel.pp=2"};
    cases.push_back({"pp2 " + schedule, 2, of_two, "dense",
                     schedule == "gpipe" || schedule == "zb-h1" ? "" : "dense bf16"});
    cases.push_back({"pp2 m8 " + schedule, 2, of_two + Words{"train.batch=8"}, "dense"});
    cases.push_back({"pp2 selective " + schedule, 2, of_two + Words{"train.recompute=selective"}, "dense"});
    cases.push_back({"pp2 full " + schedule, 2, of_two + Words{"train.recompute=full"}, "dense"});
    const Words of_one = {"train.recompute=full", "train.recompute_layers=1"};
    cases.push_back({"pp2 full of one layer " + schedule, 2, of_two + of_one, "dense",
                     schedule == "zbv" || schedule == "zb-h1" ? "dense bf16" : ""});
    cases.push_back(
        {"pp4 " + schedule, 4, words + Words{"parallel.pp=4", "model.layers=8", "train.batch=8"}, "dense"});
  }
  return cases;
}

std::vector<Case> of_contexts() {
  std::vector<Case> cases;
  for (const int ranks : {2, 4}) {
    for (const std::string split : {"contiguous", "zigzag"}) {
      const auto add = [&](const std::string& key, const std::string& method, const std::string& in_suite) {
        Words words = {fmt::format("parallel.cp={}", ranks), key + "=" + method,
                       "parallel.context_split=" + split};
        if (method == "ulysses") words.push_back("model.kv_heads=4");
        cases.push_back(
            {fmt::format("cp{} {} {} {}", ranks, key, method, split), ranks, words, "dense", in_suite});
      };
      const bool zigzag_of_two = ranks == 2 && split == "zigzag";
      add("parallel.context", "ring", zigzag_of_two ? "dense bf16" : "");
      add("parallel.context", "all-gather", "");
      add("parallel.context", "ulysses", ranks == 2 && !zigzag_of_two ? "dense bf16" : "");
      add("parallel.context", "two-level", "");
      add("parallel.linear_context", "ring", "");
      add("parallel.linear_context", "all-gather", "");
      add("parallel.linear_context", "all-scan", zigzag_of_two ? "dense bf16" : "");
      add("parallel.linear_context", "ulysses", zigzag_of_two ? "dense bf16" : "");
    }
  }
  return cases;
}

// Workers of an outer loop: what all agree on is on all of them, and saved by the first; what each has sent
// is saved by each.
std::vector<Case> of_outer_loops() {
  std::vector<Case> cases;
  for (const std::string method : {"co2", "diloco", "delay_corrected", "streaming", "local_sgd"}) {
    const Words words = {"optim.outer=" + method, "optim.outer_every=2", "train.steps=4"};
    cases.push_back({"workers2 " + method, 2, words, "dense",
                     method == "co2" || method == "delay_corrected" ? "dense bf16" : ""});
  }
  cases.push_back(
      {"workers2 narrow wire",
       2,
       {"optim.outer=diloco", "optim.outer_every=2", "train.steps=4", "optim.outer_wire=bfloat16"},
       "dense",
       "dense fp32"});
  return cases;
}

class RankMemoryOf : public RankMemory {
 protected:
  void check(const std::vector<Case>& cases) {
    const bool all = longhaul::testing::takes_all();
    for (const Case& each : cases) {
      for (const auto& [model, words] : kModels) {
        for (const char* const dtype : {"bf16", "fp32"}) {
          const std::string place = fmt::format("{} {}", model, dtype);
          if (all ? each.models.find(model) == std::string::npos : each.in_suite != place) continue;
          expect_planned(place + " " + each.name, each.ranks,
                         words + Words{fmt::format("train.dtype={}", dtype)} + each.words, 0.02, 0.05);
        }
      }
    }
  }
};

TEST_F(RankMemoryOf, EachAxisIsWhatIsCounted) { check(of_axes()); }
TEST_F(RankMemoryOf, AttentionAloneIsWhatIsCounted) { check(of_softmax()); }
TEST_F(RankMemoryOf, EachDispatcherIsWhatIsCounted) { check(of_dispatchers()); }
TEST_F(RankMemoryOf, RecomputationIsWhatIsCounted) { check(of_recomputation()); }
TEST_F(RankMemoryOf, OffloadIsWhatIsCounted) { check(of_offload()); }
TEST_F(RankMemoryOf, EachScheduleIsWhatIsCounted) { check(of_schedules()); }
TEST_F(RankMemoryOf, EachContextMethodIsWhatIsCounted) { check(of_contexts()); }
TEST_F(RankMemoryOf, OuterLoopsAreWhatIsCounted) { check(of_outer_loops()); }

// Where a router chooses, one rank gets more rows than the other; what both have together is what was
// planned.
TEST_F(RankMemory, OfRoutedRowsIsThatOfTheRanksTogether) {
  const auto all = trained("routed", 2, kModels.at("experts") + Words{"train.dtype=bf16", "parallel.ep=2"});
  double planned = 0, counted = 0;
  for (const auto& rank : all) {
    ASSERT_TRUE(rank.contains("activations"));
    planned += static_cast<double>(rank.at("activations").planned_bytes.value());
    counted += static_cast<double>(rank.at("activations").peak_bytes);
  }
  EXPECT_NEAR(planned, counted, 0.03 * counted);
}

}  // namespace
}  // namespace longhaul::run
