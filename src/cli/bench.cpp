// `longhaul bench`: operators and whole training steps on this machine (src/bench), and two such results side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/loaded_library.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/checkpoint.h"
#include "bench/communication.h"
#include "bench/corruption.h"
#include "bench/decode.h"
#include "bench/elastic.h"
#include "bench/file_comparison.h"
#include "bench/overlap.h"
#include "bench/register.h"
#include "bench/startup.h"
#include "bench/train.h"
#include "cli/bench_recovery.h"
#include "cli/command.h"
#include "cli/output.h"
#include "kernels/dispatch.h"
#include "observe/table.h"

namespace longhaul::cli {

void add_bench_faults(Command& group);   // bench_faults.cpp
void add_bench_loader(Command& group);   // bench_loader.cpp
void add_bench_outer(Command& group);    // bench_outer.cpp
void add_bench_plan(Command& group);     // bench_plan.cpp
void add_bench_quality(Command& group);  // bench_quality.cpp
namespace {

struct BenchArguments {
  std::vector<std::string> names;
  bool list = false, fresh = false, json = false, peer = false, explain = false, ops_library = false;
};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const bench::Benchmark& each : bench::benchmarks()) names.push_back(each.name);
  return names;
}

const bench::Benchmark& benchmark_named(const std::string& name) {
  for (const bench::Benchmark& each : bench::benchmarks()) {
    if (name == each.name) return each;
  }
  const std::vector<std::string> names = known_names();
  const std::string nearest = nearest_spelling(name, names);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown benchmark",
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .found = name,
               .hint = program_command(nearest.empty() ? "bench --list" : "bench " + nearest)});
}

void list_benchmarks(bool json) {
  for (const bench::Benchmark& each : bench::benchmarks()) {
    if (json)
      print_json({{"name", each.name}, {"purpose", each.purpose}});
    else
      print(fmt::format("{:<22} {}\n", each.name, each.purpose));
  }
}

ExitCode run_benchmarks(const BenchArguments& arguments);

// Beside the program, or in lib/ of a package.
std::filesystem::path ops_library() {
  constexpr const char* kName = "liblonghaul_ops.so";
  const std::filesystem::path folder = file_that_holds(reinterpret_cast<const void*>(&run_benchmarks)).parent_path();
  for (const auto& path : {folder / kName, folder.parent_path() / "lib" / kName}) {
    if (std::filesystem::exists(path)) return path;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "the operators' library is not built",
               .expected = kName,
               .where = folder.string(),
               .hint = "./longhaul build, in the source folder"});
}

ExitCode run_benchmarks(const BenchArguments& arguments) {
  if (arguments.list) {
    list_benchmarks(arguments.json);
    return ExitCode::kDone;
  }
  if (arguments.ops_library) {
    print(ops_library().string() + "\n");
    return ExitCode::kDone;
  }
  kernels::Dispatcher::explain(arguments.explain);
  std::vector<const bench::Benchmark*> chosen;
  for (const std::string& name : arguments.names) chosen.push_back(&benchmark_named(name));
  if (chosen.empty()) {
    for (const bench::Benchmark& each : bench::benchmarks()) chosen.push_back(&each);
  }
  const bench::Request request{.peak = measured_profile(arguments.fresh), .peer = arguments.peer};
  bool correct = true;
  for (const bench::Benchmark* each : chosen) {
    bench::Results results;
    each->run(request, results);
    for (const bench::Result& result : results) {
      correct = correct && result.correct();
      if (arguments.json) print_json(bench::to_json(result, request.peak));
    }
    if (!arguments.json) print(bench::table_of(results, request.peak, colours_wanted(stdout)) + "\n");
  }
  return correct ? ExitCode::kDone : ExitCode::kCheckFailed;
}

void add_compare_machines(Command& bench) {
  struct Files {
    std::string a, b;
    bool json = false;
  };
  auto files = std::make_shared<Files>();
  Command compare = bench.add("compare", "two outputs of `bench … --json` side by side",
                              {{"before and after a change", "bench compare before.json after.json"},
                               {"how the files are made", "bench attention --json > before.json"},
                               {"for a script", "bench compare before.json after.json --json"}});
  compare.option("A", files->a, "JSON lines of an earlier run").required();
  compare.option("B", files->b, "JSON lines of a later run").required();
  compare.json_flag(files->json, "print one JSON object a line");
  compare.on_run([files] {
    const bench::FileComparison comparison = bench::compare_files(files->a, files->b);
    if (files->json) {
      for (const bench::ComparedFigure& each : comparison.figures) print_json(each.json());
    } else {
      print(comparison.table().text(colours_wanted(stdout)) + comparison.remarks());
    }
    return ExitCode::kDone;
  });
}

void add_bench_train(Command& group) {
  struct Options {
    bench::TrainRequest request;
    std::string device = "auto";
    bool json = false, explain = false;
  };
  auto options = std::make_shared<Options>();
  Command train =
      group.add("train", "whole training steps of a preset on random tokens",
                {{"GPT-2 in bf16", "bench train --preset gpt2-124m --batch 1 --sequence 1024 --dtype bf16"},
                 {"half of the layers of a hybrid with experts, long", "bench train --preset hybrid-bench --sequence 8192 model.layers=4"},
                 {"for a script", "bench train --preset gpt2-124m --dtype fp32 --steps 5 --json"}});
  train.option("--preset", options->request.preset, "model: see presets/").default_shown();
  train.option("--batch", options->request.batch, "sequences a step").at_least(1).default_shown();
  train.option("--sequence", options->request.sequence, "tokens a sequence").at_least(2).at_most(1 << 24).default_shown();
  train.option("--dtype", options->request.dtype, "bf16, fp32 or fp64").one_of({"bf16", "fp32", "fp64"}).default_shown();
  train.option("--steps", options->request.steps, "steps that are timed").at_least(1).default_shown();
  train.option("--device", options->device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
  train.option("--seed", options->request.seed, "of weights and tokens").default_shown();
  train.overrides(options->request.overrides);
  train.flag("--explain-dispatch", options->explain, "say which implementation took each call, and why others did not");
  train.json_flag(options->json, "print one JSON object");
  train.on_run([options] {
    kernels::Dispatcher::explain(options->explain);
    options->request.device = device_named(options->device, "--device");
    const MachineProfile peak = measured_profile(/*fresh=*/false, options->request.device);
    const bench::Result result = bench::bench_train(options->request, peak);
    if (options->json)
      print_json(bench::to_json(result, peak));
    else
      print(bench::table_of({result}, peak, colours_wanted(stdout)));
    return result.correct() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_decode(Command& group) {
  struct Options {
    bench::DecodeRequest request;
    std::string device = "auto";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command decode = group.add("decode", "text of a preset with random weights, many sequences together beside one after the other",
                             {{"sixteen sequences of the first run's model", "bench decode"},
                              {"more of them, longer", "bench decode --count 64 --prompt 256 --tokens 256"},
                              {"for a script", "bench decode --preset gpt2-124m --dtype fp32 --json"}});
  decode.option("--preset", options->request.preset, "model: see presets/").default_shown();
  decode.option("--count", options->request.count, "sequences").at_least(1).default_shown();
  decode.option("--prompt", options->request.prompt, "tokens of their prompt, which is the same").at_least(1).default_shown();
  decode.option("--tokens", options->request.tokens, "new tokens of each").at_least(1).default_shown();
  decode.option("--dtype", options->request.dtype, "bf16, fp32 or fp64").one_of({"bf16", "fp32", "fp64"}).default_shown();
  decode.option("--runs", options->request.runs, "runs that are timed, of each way").at_least(1).default_shown();
  decode.option("--device", options->device, "auto (a GPU when there is one), cpu, cuda or cuda:N").default_shown();
  decode.option("--seed", options->request.seed, "of weights, prompt and draws").default_shown();
  decode.json_flag(options->json, "print one JSON object");
  decode.on_run([options] {
    options->request.device = device_named(options->device, "--device");
    const MachineProfile peak = measured_profile(/*fresh=*/false, options->request.device);
    const bench::Result result = bench::bench_decode(options->request);
    if (options->json)
      print_json(bench::to_json(result, peak));
    else
      print(bench::table_of({result}, peak, colours_wanted(stdout)));
    return result.correct() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_communication(Command& group) {
  struct Options {
    bool json = false, dry_runs = false;
  };
  auto options = std::make_shared<Options>();
  Command communication =
      group.add("communication", "bytes that ranks send for a layer, beside the formulas (exit 1: they differ)",
                {{"the table", "bench communication"},
                 {"and one step of 456B on 10,240 ranks and of 175B on 12,288, without them", "bench communication --dry-runs"},
                 {"for a script", "bench communication --json"}});
  communication.flag("--dry-runs", options->dry_runs, "published models on published numbers of ranks, without these (some minutes)");
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
      Progress progress("ranks of " + name, static_cast<int64_t>(train::sampled_ranks(request.arrangement.mesh).size()));
      const train::DryRun run = train::dry_run(request, [&](int64_t, int64_t) { progress.advance(1); });
      good = good && run.comparison.agreed();
      if (options->json)
        print_json(bench::to_json(name, request, run));
      else
        print("\n" + bench::table_of(name, request, run).text(colours_wanted(stdout)) + run.comparison.text() + "\n");
    }
    return good ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_startup(Command& group) {
  struct Options {
    int64_t clients = 1024;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command startup = group.add("startup", "what starting ranks costs the store at which they meet, up to 10,240 (exit 1: more than linear, or real ranks ask otherwise)",
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

void add_bench_checkpoint(Command& group) {
  struct Options {
    bench::CheckpointRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command checkpoint =
      group.add("checkpoint", "what a checkpoint in memory at every step costs a step (exit 1: what lies there is not whole)",
                {{"the table", "bench checkpoint"},
                 {"1.5 GB of state", "bench checkpoint --preset gpt2-124m --batch 8 --sequence 512 --steps 3"},
                 {"for a script", "bench checkpoint --json"}});
  checkpoint.option("--preset", options->request.preset, "model: see presets/").default_shown();
  checkpoint.option("--batch", options->request.batch, "sequences a step").at_least(1).at_most(1 << 20).default_shown();
  checkpoint.option("--sequence", options->request.sequence, "tokens a sequence").at_least(2).at_most(1 << 24).default_shown();
  checkpoint.option("--steps", options->request.steps, "steps of each kind that are timed").at_least(1).default_shown();
  checkpoint.json_flag(options->json, "print one JSON object");
  checkpoint.on_run([options] {
    const bench::CheckpointCost cost = bench::measure_checkpoint(options->request);
    if (options->json)
      print_json(bench::to_json(options->request, cost));
    else
      print(bench::table_of(options->request, cost).text(colours_wanted(stdout)));
    return cost.whole ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_elastic(Command& group) {
  struct Options {
    bench::ElasticRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command elastic = group.add("elastic", "what train.elastic costs on 1, 2 and 4 ranks, in turns (exit 1: bits differ between them)",
                              {{"the table", "bench elastic"},
                               {"another model, more micro-batches", "bench elastic --preset gpt2-124m --batch 16 --sequence 128"},
                               {"for a script", "bench elastic --json"}});
  elastic.option("--preset", options->request.preset, "model: see presets/").default_shown();
  elastic.option("--batch", options->request.batch, "sequences a step").at_least(4).at_most(1 << 20).default_shown();
  elastic.option("--micro-batch", options->request.micro_batch, "sequences at once").at_least(1).at_most(1 << 20).default_shown();
  elastic.option("--sequence", options->request.sequence, "tokens a sequence").at_least(2).at_most(1 << 24).default_shown();
  elastic.option("--dtype", options->request.dtype, "bf16, fp32 or fp64").one_of({"bf16", "fp32", "fp64"}).default_shown();
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

void add_bench_corruption(Command& group) {
  struct Options {
    bench::CorruptionRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command corruption =
      group.add("corruption", "how many flipped bits the checks of [guard] see, and what they cost (exit 1: a false alarm, or too few)",
                {{"the tables", "bench corruption"},
                 {"more flips, no timing", "bench corruption --flips 1000 --turns 0"},
                 {"for a script", "bench corruption --json"}});
  corruption.option("--flips", options->request.flips, "of each kind of bit in each place").at_least(1).at_most(1 << 20).default_shown();
  corruption.option("--ranks", options->request.ranks, "threads that are replicas").at_least(3).at_most(16).default_shown();
  corruption.option("--seed", options->request.seed, "of what is flipped").default_shown();
  corruption.option("--preset", options->request.preset, "model whose steps the checks are timed beside: see presets/").default_shown();
  corruption.option("--turns", options->request.turns, "that are timed; 0: none").at_least(0).default_shown();
  corruption.json_flag(options->json, "print one JSON object");
  corruption.on_run([options] {
    const bench::Corruption measured = bench::measure_corruption(options->request);
    if (options->json) {
      print_json(bench::to_json(measured));
    } else {
      for (const observe::Table& table : bench::tables_of(measured)) print(table.text(colours_wanted(stdout)) + "\n");
    }
    return measured.good() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_overlap(Command& group) {
  struct Options {
    bench::OverlapSizes sizes;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command overlap = group.add(
      "overlap", "what of communication is hidden behind computing, over a link that is delayed (exit 1: a trace does not add up)",
      {{"the table", "bench overlap"},
       {"larger products, so that a busy machine disturbs less", "bench overlap --tokens 1024 --repetitions 9"},
       {"for a script", "bench overlap --json"}});
  overlap.option("--tokens", options->sizes.tokens, "of a micro-batch").at_least(16).default_shown();
  overlap.option("--hidden", options->sizes.hidden, "channels; a multiple of 8").at_least(32).default_shown();
  overlap.option("--repetitions", options->sizes.repetitions, "of which the fastest counts, of shares the median").at_least(1).default_shown();
  overlap.json_flag(options->json, "print one JSON object a line");
  overlap.on_run([options] {
    const std::vector<bench::OverlapRow> rows = bench::measure_overlap(options->sizes);
    if (options->json) {
      for (const bench::OverlapRow& row : rows) print_json(bench::to_json(row));
    } else {
      print(bench::table_of(rows).text(colours_wanted(stdout)));
    }
    return std::ranges::all_of(rows, [](const bench::OverlapRow& row) { return row.step.adds_up; }) ? ExitCode::kDone
                                                                                                    : ExitCode::kCheckFailed;
  });
}

}  // namespace

void add_bench(Command& program) {
  auto arguments = std::make_shared<BenchArguments>();
  Command bench = program.add("bench", "measure operators beside this machine's limits (exit 1: a wrong answer)",
                              {{"everything", "bench"},
                               {"one of them, beside its peer", "bench linear_recurrence --peer"},
                               {"for a script", "bench gemm copy --json"}});
  bench.option("NAME", arguments->names, fmt::format("{}; all when none is named", fmt::join(known_names(), ", ")));
  bench.flag("--list", arguments->list, "only list them");
  bench.flag("--peer", arguments->peer, "time what a user would use instead beside it");
  bench.flag("--fresh", arguments->fresh, "measure the machine's limits again first");
  bench.flag("--explain-dispatch", arguments->explain, "say which implementation took each call, and why others did not");
  bench.flag("--ops-library", arguments->ops_library, "only print the path of the operators' library for torch.ops.load_library");
  bench.json_flag(arguments->json, "print one JSON object a line");
  bench.on_run([arguments] { return run_benchmarks(*arguments); });
  add_bench_train(bench);
  add_bench_decode(bench);
  add_bench_communication(bench);
  add_bench_startup(bench);
  add_bench_checkpoint(bench);
  add_bench_elastic(bench);
  add_bench_faults(bench);
  add_bench_loader(bench);
  add_bench_plan(bench);
  add_bench_quality(bench);
  add_bench_outer(bench);
  add_bench_corruption(bench);
  add_bench_overlap(bench);
  add_bench_recovery(bench);
  add_compare_machines(bench);
}

}  // namespace longhaul::cli
