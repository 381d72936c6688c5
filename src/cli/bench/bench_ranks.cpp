// `longhaul bench communication | folding | startup | elastic | overlap | corruption`: what ranks send, how
// they start, and what they see of each other.
#include <algorithm>
#include <memory>

#include "base/progress.h"
#include "base/terminal.h"
#include "bench/driver/startup.h"
#include "bench/models/corruption.h"
#include "bench/models/elastic.h"
#include "bench/ranks/communication.h"
#include "bench/ranks/folding.h"
#include "bench/ranks/overlap.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

void add_bench_communication(Command& group) {
  struct Options {
    bool json = false, dry_runs = false;
  };
  auto options = std::make_shared<Options>();
  Command communication = group.add(
      "communication", "bytes that ranks send for a layer, beside the formulas (exit 1: they differ)",
      {{"the table", "bench communication"},
       {"and one step of 456B on 10,240 ranks and of 175B on 12,288, without them",
        "bench communication --dry-runs"},
       {"for a script", "bench communication --json"}});
  communication.flag("--dry-runs", options->dry_runs,
                     "published models on published numbers of ranks, without these (some minutes)");
  communication.json_flag(options->json, "print one JSON object a line");
  communication.on_run([options] {
    const std::vector<bench::CountedBytes> lines = bench::count_communication();
    bool good = std::ranges::all_of(lines, &bench::CountedBytes::equal);
    if (options->json) {
      for (const bench::CountedBytes& line : lines) print_json(bench::to_json(line));
    } else {
      print(bench::table_of(lines).text(colours_wanted(stdout)));
    }
    if (!options->dry_runs) return good ? ExitCode::kDone : ExitCode::kCheckFailed;
    for (const auto& [name, request] : bench::published_runs()) {
      Progress progress("ranks of " + name,
                        static_cast<int64_t>(run::sampled_ranks(request.arrangement.mesh).size()));
      const run::DryRun run = run::dry_run(request, [&](int64_t, int64_t) { progress.advance(1); });
      good = good && run.comparison.agreed();
      if (options->json)
        print_json(bench::to_json(name, request, run));
      else
        print("\n" + bench::table_of(name, request, run).text(colours_wanted(stdout)) +
              run.comparison.text() + "\n");
    }
    return good ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_folding(Command& group) {
  struct Options {
    bench::FoldingRequest request;
    double near = 32, far = 4;
    bool json = false;
    std::string as_rank;
  };
  auto options = std::make_shared<Options>();
  Command folding = group.add(
      "folding",
      "a layer of experts whose ranks stand on one node or on several, over links of two speeds, in turns "
      "(exit 1: results or bytes differ)",
      {{"the table", "bench folding"},
       {"a network 18 times as slow as a node's links, more turns",
        "bench folding --near 36 --far 2 --turns 15"},
       {"for a script", "bench folding --json"}});
  folding.option("--near", options->near, "megabytes a second, that a rank's link passes on its node")
      .at_least(0.001)
      .default_shown();
  folding.option("--far", options->far, "the same, to other nodes").at_least(0.001).default_shown();
  folding.option("--tokens", options->request.tokens, "of a rank; a multiple of 32")
      .at_least(32)
      .default_shown();
  folding.option("--hidden", options->request.hidden, "channels").at_least(8).default_shown();
  folding
      .option("--intermediate", options->request.intermediate,
              "inner channels of each of eight experts; of each of 64 an eighth; a multiple of 32")
      .at_least(32)
      .default_shown();
  folding.option("--turns", options->request.turns, "of which the median counts").at_least(1).default_shown();
  folding.option("--as-rank", options->as_rank, "").hidden();
  folding.json_flag(options->json, "print one JSON object a line");
  folding.on_run([options] {
    if (!options->as_rank.empty()) {
      bench::measure_folding_as_rank(options->as_rank);
      return ExitCode::kDone;
    }
    bench::FoldingRequest& request = options->request;
    request.near_bytes_per_second = 1e6 * options->near;
    request.far_bytes_per_second = 1e6 * options->far;
    bench::require_even(request);
    const std::vector<bench::FoldingRow> rows = bench::measure_folding(request);
    if (options->json) {
      for (const bench::FoldingRow& row : rows) print_json(bench::to_json(request, row));
    } else {
      print(bench::table_of(request, rows).text(colours_wanted(stdout)));
    }
    return std::ranges::all_of(rows, &bench::FoldingRow::good) ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_startup(Command& group) {
  struct Options {
    int64_t clients = 1024;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command startup = group.add("startup",
                              "what starting ranks costs the store at which they meet, up to 10,240 (exit 1: "
                              "more than linear, or real ranks ask otherwise)",
                              {{"the table", "bench startup"},
                               {"a real store with fewer clients", "bench startup --clients 128"},
                               {"for a script", "bench startup --json"}});
  startup.option("--clients", options->clients, "most threads that are clients of a real store; 0: none")
      .at_least(0)
      .at_most(1024)
      .default_shown();
  startup.json_flag(options->json, "print one JSON object");
  startup.on_run([options] {
    const bench::Startup measured = bench::measure_startup(options->clients);
    if (options->json)
      print_json(bench::to_json(measured));
    else
      print(bench::table_of(measured).text(colours_wanted(stdout)) + bench::comparison_text(measured));
    return measured.good() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_elastic(Command& group) {
  struct Options {
    bench::ElasticRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command elastic = group.add(
      "elastic", "what train.elastic costs on 1, 2 and 4 ranks, in turns (exit 1: bits differ between them)",
      {{"the table", "bench elastic"},
       {"another model, more micro-batches", "bench elastic --preset gpt2-124m --batch 16 --sequence 128"},
       {"for a script", "bench elastic --json"}});
  elastic.option("--preset", options->request.preset, "model: see presets/").default_shown();
  elastic.option("--batch", options->request.batch, "sequences a step")
      .at_least(4)
      .at_most(1 << 20)
      .default_shown();
  elastic.option("--micro-batch", options->request.micro_batch, "sequences at once")
      .at_least(1)
      .at_most(1 << 20)
      .default_shown();
  elastic.option("--sequence", options->request.sequence, "tokens a sequence")
      .at_least(2)
      .at_most(1 << 24)
      .default_shown();
  elastic.option("--dtype", options->request.dtype, "bf16, fp32 or fp64")
      .one_of({"bf16", "fp32", "fp64"})
      .default_shown();
  elastic.option("--steps", options->request.steps, "steps that are timed").at_least(1).default_shown();
  elastic.json_flag(options->json, "print one JSON object a line");
  elastic.on_run([options] {
    const std::vector<bench::ElasticRow> rows = bench::measure_elastic(options->request);
    if (options->json) {
      for (const bench::ElasticRow& row : rows) print_json(bench::to_json(options->request, row));
    } else {
      print(bench::table_of(options->request, rows).text(colours_wanted(stdout)));
    }
    return bench::same_bits(rows) ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_overlap(Command& group) {
  struct Options {
    bench::OverlapSizes sizes;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command overlap = group.add("overlap",
                              "what of communication is hidden behind computing, over a link that is delayed "
                              "(exit 1: a trace does not add up)",
                              {{"the table", "bench overlap"},
                               {"larger products, so that a busy machine disturbs less",
                                "bench overlap --tokens 1024 --repetitions 9"},
                               {"for a script", "bench overlap --json"}});
  overlap.option("--tokens", options->sizes.tokens, "of a micro-batch").at_least(16).default_shown();
  overlap.option("--hidden", options->sizes.hidden, "channels; a multiple of 8").at_least(32).default_shown();
  overlap
      .option("--repetitions", options->sizes.repetitions,
              "of which the fastest counts, of shares the median")
      .at_least(1)
      .default_shown();
  overlap.json_flag(options->json, "print one JSON object a line");
  overlap.on_run([options] {
    const std::vector<bench::OverlapRow> rows = bench::measure_overlap(options->sizes);
    if (options->json) {
      for (const bench::OverlapRow& row : rows) print_json(bench::to_json(row));
    } else {
      print(bench::table_of(rows).text(colours_wanted(stdout)));
    }
    return std::ranges::all_of(rows, [](const bench::OverlapRow& row) { return row.step.adds_up; })
               ? ExitCode::kDone
               : ExitCode::kCheckFailed;
  });
}

void add_bench_corruption(Command& group) {
  struct Options {
    bench::CorruptionRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command corruption = group.add("corruption",
                                 "how many flipped bits the checks of [guard] see, and what they cost (exit "
                                 "1: a false alarm, or too few)",
                                 {{"the tables", "bench corruption"},
                                  {"more flips, no timing", "bench corruption --flips 1000 --turns 0"},
                                  {"for a script", "bench corruption --json"}});
  corruption.option("--flips", options->request.flips, "of each kind of bit in each place")
      .at_least(1)
      .at_most(1 << 20)
      .default_shown();
  corruption.option("--ranks", options->request.ranks, "threads that are replicas")
      .at_least(3)
      .at_most(16)
      .default_shown();
  corruption.option("--seed", options->request.seed, "of what is flipped").default_shown();
  corruption
      .option("--preset", options->request.preset,
              "model whose steps the checks are timed beside: see presets/")
      .default_shown();
  corruption.option("--turns", options->request.turns, "that are timed; 0: none").at_least(0).default_shown();
  corruption.json_flag(options->json, "print one JSON object");
  corruption.on_run([options] {
    const bench::Corruption measured = bench::measure_corruption(options->request);
    if (options->json) {
      print_json(bench::to_json(measured));
    } else {
      for (const observe::Table& table : bench::tables_of(measured))
        print(table.text(colours_wanted(stdout)) + "\n");
    }
    return measured.good() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace

void add_bench_ranks(Command& group) {
  add_bench_communication(group);
  add_bench_folding(group);
  add_bench_startup(group);
  add_bench_elastic(group);
  add_bench_overlap(group);
  add_bench_corruption(group);
}

}  // namespace longhaul::cli
