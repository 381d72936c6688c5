// `longhaul bench`: operators on this machine (src/bench), two such results side by side, and what else can
// be measured, each in a file of its own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/process/loaded_library.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "bench/file_comparison.h"
#include "bench/register.h"
#include "cli/bench/bench_recovery.h"
#include "cli/command.h"
#include "cli/output.h"
#include "kernels/dispatch.h"
#include "observe/table.h"

namespace longhaul::cli {

void add_bench_faults(Command& group);     // bench_faults.cpp
void add_bench_goodput(Command& group);    // bench_goodput.cpp
void add_bench_loader(Command& group);     // bench_loader.cpp
void add_bench_models(Command& group);     // bench_models.cpp
void add_bench_offload(Command& group);    // bench_offload.cpp
void add_bench_outer(Command& group);      // bench_outer.cpp
void add_bench_plan(Command& group);       // bench_plan.cpp
void add_bench_posttrain(Command& group);  // bench_posttrain.cpp
void add_bench_puzzles(Command& group);    // bench_puzzles.cpp
void add_bench_quality(Command& group);    // bench_quality.cpp
void add_bench_ranks(Command& group);      // bench_ranks.cpp
void add_bench_spikes(Command& group);     // bench_spikes.cpp
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
  const std::filesystem::path folder =
      file_that_holds(reinterpret_cast<const void*>(&run_benchmarks)).parent_path();
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

}  // namespace

void add_bench(Command& program) {
  auto arguments = std::make_shared<BenchArguments>();
  Command bench =
      program.add("bench", "measure operators beside this machine's limits (exit 1: a wrong answer)",
                  {{"everything", "bench"},
                   {"one of them, beside its peer", "bench linear_recurrence --peer"},
                   {"for a script", "bench gemm copy --json"}});
  bench.option("NAME", arguments->names,
               fmt::format("{}; all when none is named", fmt::join(known_names(), ", ")));
  bench.flag("--list", arguments->list, "only list them");
  bench.flag("--peer", arguments->peer, "time what a user would use instead beside it");
  bench.flag("--fresh", arguments->fresh, "measure the machine's limits again first");
  bench.flag("--explain-dispatch", arguments->explain,
             "say which implementation took each call, and why others did not");
  bench.flag("--ops-library", arguments->ops_library,
             "only print the path of the operators' library for torch.ops.load_library");
  bench.json_flag(arguments->json, "print one JSON object a line");
  bench.on_run([arguments] { return run_benchmarks(*arguments); });
  add_bench_models(bench);
  add_bench_ranks(bench);
  add_bench_faults(bench);
  add_bench_goodput(bench);
  add_bench_loader(bench);
  add_bench_plan(bench);
  add_bench_posttrain(bench);
  add_bench_puzzles(bench);
  add_bench_quality(bench);
  add_bench_offload(bench);
  add_bench_spikes(bench);
  add_bench_outer(bench);
  add_bench_recovery(bench);
  add_compare_machines(bench);
}

}  // namespace longhaul::cli
