// `longhaul bench`: operators and whole training steps on this machine (src/bench), and two such results side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/loaded_library.h"
#include "base/terminal.h"
#include "bench/compare.h"
#include "bench/register.h"
#include "bench/train.h"
#include "cli/command.h"
#include "kernels/dispatch.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

struct Arguments {
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
  const std::string nearest = nearest_name(name, names);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown benchmark",
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .found = name,
               .hint = nearest.empty() ? "longhaul bench --list" : "longhaul bench " + nearest});
}

void list_benchmarks(bool json) {
  for (const bench::Benchmark& each : bench::benchmarks()) {
    if (json)
      print_json({{"name", each.name}, {"purpose", each.purpose}});
    else
      print(fmt::format("{:<22} {}\n", each.name, each.purpose));
  }
}

ExitCode run_benchmarks(const Arguments& arguments);

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

ExitCode run_benchmarks(const Arguments& arguments) {
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

void add_compare(CLI::App& bench, Command& command) {
  struct Files {
    std::string a, b;
    bool json = false;
  };
  auto files = std::make_shared<Files>();
  CLI::App* compare = add_command(bench, "compare", "two outputs of `bench … --json` side by side",
                                  {{"before and after a change", "bench compare before.json after.json"},
                                   {"how the files are made", "bench attention --json > before.json"},
                                   {"for a script", "bench compare before.json after.json --json"}});
  compare->add_option("A", files->a, "JSON lines of an earlier run")->required();
  compare->add_option("B", files->b, "JSON lines of a later run")->required();
  add_json_flag(compare, files->json, "print one JSON object a line");
  on_run(compare, command, [files] {
    const bench::FileComparison comparison = bench::compare_files(files->a, files->b);
    if (files->json) {
      for (const bench::ComparedFigure& each : comparison.figures) print_json(each.json());
    } else {
      print(comparison.table().text(colours_wanted(stdout)) + comparison.remarks());
    }
    return ExitCode::kDone;
  });
}

void add_train(CLI::App& group, Command& command) {
  struct Options {
    bench::TrainRequest request;
    std::string device = "auto";
    bool json = false, explain = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* train = add_command(group, "train", "whole training steps of a preset on random tokens",
                                {{"GPT-2 in bf16", "bench train --preset gpt2-124m --batch 1 --sequence 1024 --dtype bf16"},
                                 {"a hybrid with experts, long", "bench train --preset hybrid-bench --batch 1 --sequence 8192"},
                                 {"for a script", "bench train --preset gpt2-124m --dtype fp32 --steps 5 --json"}});
  train->add_option("--preset", options->request.preset, "model: see presets/")->capture_default_str();
  train->add_option("--batch", options->request.batch, "sequences a step")->check(CLI::PositiveNumber)->capture_default_str();
  train->add_option("--sequence", options->request.sequence, "tokens a sequence")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24))
      ->capture_default_str();
  train->add_option("--dtype", options->request.dtype, "bf16, fp32 or fp64")
      ->check(CLI::IsMember({"bf16", "fp32", "fp64"}))
      ->capture_default_str();
  train->add_option("--steps", options->request.steps, "steps that are timed")->check(CLI::PositiveNumber)->capture_default_str();
  train->add_option("--device", options->device, "auto (a GPU when there is one), cpu, cuda or cuda:N")->capture_default_str();
  train->add_option("--seed", options->request.seed, "of weights and tokens")->capture_default_str();
  train->add_flag("--explain-dispatch", options->explain, "say which implementation took each call, and why others did not");
  add_json_flag(train, options->json, "print one JSON object");
  on_run(train, command, [options] {
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

}  // namespace

void add_bench(CLI::App& program, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* bench = add_command(program, "bench", "measure operators beside this machine's limits (exit 1: a wrong answer)",
                                {{"everything", "bench"},
                                 {"one of them, beside its peer", "bench linear_recurrence --peer"},
                                 {"for a script", "bench gemm copy --json"}});
  bench->add_option("NAME", arguments->names, fmt::format("{}; all when none is named", fmt::join(known_names(), ", ")));
  bench->add_flag("--list", arguments->list, "only list them");
  bench->add_flag("--peer", arguments->peer, "time what a user would use instead beside it");
  bench->add_flag("--fresh", arguments->fresh, "measure the machine's limits again first");
  bench->add_flag("--explain-dispatch", arguments->explain, "say which implementation took each call, and why others did not");
  bench->add_flag("--ops-library", arguments->ops_library, "only print the path of the operators' library for torch.ops.load_library");
  add_json_flag(bench, arguments->json, "print one JSON object a line");
  bench->require_subcommand(0, 1);
  on_run(bench, command, [arguments] { return run_benchmarks(*arguments); });
  add_train(*bench, command);
  add_compare(*bench, command);
}

}  // namespace longhaul::cli
