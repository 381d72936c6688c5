// `longhaul bench train | decode | serve | checkpoint`: whole models on this machine.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/terminal.h"
#include "bench/models/checkpoint.h"
#include "bench/models/operator_table.h"
#include "bench/models/train.h"
#include "bench/serving/decode.h"
#include "bench/serving/serve.h"
#include "cli/command.h"
#include "cli/output.h"
#include "kernels/dispatch.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

void add_bench_train(Command& group) {
  struct Options {
    bench::TrainRequest request;
    std::string device = "auto";
    bool json = false, explain = false, by_operator = false;
  };
  auto options = std::make_shared<Options>();
  Command train =
      group.add("train", "whole training steps of a preset on random tokens",
                {{"GPT-2 in bf16", "bench train --preset gpt2-124m --batch 1 --sequence 1024 --dtype bf16"},
                 {"where the time of a hybrid with experts goes",
                  "bench train --preset hybrid-bench --sequence 8192 model.layers=4 --by-operator"},
                 {"for a script", "bench train --preset gpt2-124m --dtype fp32 --steps 5 --json"}});
  train.option("--preset", options->request.preset, "model: see presets/").default_shown();
  train.option("--batch", options->request.batch, "sequences a step").at_least(1).default_shown();
  train.option("--sequence", options->request.sequence, "tokens a sequence")
      .at_least(2)
      .at_most(1 << 24)
      .default_shown();
  train.option("--dtype", options->request.dtype, "bf16, fp32 or fp64")
      .one_of({"bf16", "fp32", "fp64"})
      .default_shown();
  train.option("--steps", options->request.steps, "steps that are timed").at_least(1).default_shown();
  train.option("--device", options->device, "auto (a GPU when there is one), cpu, cuda or cuda:N")
      .default_shown();
  train.option("--seed", options->request.seed, "of weights and tokens").default_shown();
  train.overrides(options->request.overrides);
  train.flag("--explain-dispatch", options->explain,
             "say which implementation took each call, and why others did not");
  train.flag("--by-operator", options->by_operator,
             "times of each operator, forward and backward, and the rates that it reaches");
  train.json_flag(options->json, "print one JSON object");
  train.on_run([options] {
    kernels::Dispatcher::explain(options->explain);
    options->request.device = device_named(options->device, "--device");
    const MachineProfile peak = measured_profile(/*fresh=*/false, options->request.device);
    std::vector<kernels::OperatorTime> operators;
    const bench::Result result =
        bench::bench_train(options->request, peak, options->by_operator ? &operators : nullptr);
    const int64_t steps = options->request.steps;
    if (options->json) {
      nlohmann::ordered_json json = bench::to_json(result, peak);
      if (options->by_operator) json["operators"] = bench::operators_json(operators, steps);
      print_json(json);
    } else {
      const bool colours = colours_wanted(stdout);
      print(bench::table_of({result}, peak, colours));
      if (options->by_operator)
        print("\n" + bench::operator_table(operators, steps, options->request.dtype, peak, colours));
    }
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
  Command decode = group.add(
      "decode", "text of a preset with random weights, many sequences together beside one after the other",
      {{"sixteen sequences of the first run's model", "bench decode"},
       {"experts in eight bits beside bf16", "bench decode --preset hybrid-bench --experts int8"},
       {"for a script", "bench decode --preset gpt2-124m --dtype fp32 --json"}});
  decode.option("--preset", options->request.preset, "model: see presets/").default_shown();
  decode.option("--count", options->request.count, "sequences").at_least(1).default_shown();
  decode.option("--prompt", options->request.prompt, "tokens of their prompt, which is the same")
      .at_least(1)
      .default_shown();
  decode.option("--tokens", options->request.tokens, "new tokens of each").at_least(1).default_shown();
  decode.option("--dtype", options->request.dtype, "bf16, fp32 or fp64")
      .one_of({"bf16", "fp32", "fp64"})
      .default_shown();
  decode
      .option("--experts", options->request.experts,
              "int8: beside it a model whose experts' weights are in eight bits")
      .one_of({"int8"});
  decode
      .option("--weights", options->request.weights,
              "int8: beside it a model whose linear layers all have weights in eight bits")
      .one_of({"int8"});
  decode.option("--runs", options->request.runs, "runs that are timed, of each way")
      .at_least(1)
      .default_shown();
  decode.option("--device", options->device, "auto (a GPU when there is one), cpu, cuda or cuda:N")
      .default_shown();
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

void require_one_way(int64_t turn, int64_t context, int64_t requests) {
  if ((turn > 0) + (context > 0) + (requests > 0) < 2) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "each of these is a benchmark of its own",
               .expected = "one of --turn, --context and --requests",
               .found = "several",
               .where = "command line",
               .hint = "one after the other"});
}

void add_bench_serve(Command& group) {
  struct Options {
    bench::ServeRequest request;
    int64_t turn = 0, context = 0, requests = 0;
    std::string device = "auto";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command serve =
      group.add("serve", "a server that many clients ask at once, beside one that one client asks",
                {{"sixteen clients", "bench serve"},
                 {"a linear model after 1,024 and after 131,072 tokens",
                  "bench serve --preset linear-bench --context 131072"},
                 {"what ten thousand requests leave behind, for a script",
                  "bench serve --requests 10000 --prompt 32 --tokens 8 --json"}});
  serve.option("--preset", options->request.preset, "model: see presets/").default_shown();
  serve.option("--clients", options->request.clients, "that ask at once")
      .at_least(1)
      .at_most(256)
      .default_shown();
  serve.option("--prompt", options->request.prompt, "bytes of each prompt, a token each")
      .at_least(1)
      .default_shown();
  serve.option("--tokens", options->request.tokens, "new tokens of each text").at_least(1).default_shown();
  serve
      .option("--turn", options->turn,
              "instead: a chat whose first turn has so many tokens, and its second turn beside it")
      .at_least(256)
      .at_most(1 << 20);
  serve
      .option("--context", options->context,
              "instead: how fast a text is written after 1,024 tokens and after so many")
      .at_least(2048)
      .at_most(1 << 20);
  serve
      .option("--requests", options->requests,
              "instead: so many requests of every kind, some refused and some left by their client, and what "
              "they leave behind")
      .at_least(50);
  serve.option("--memory", options->request.memory, "bytes for states, keys and values")
      .at_least(1 << 20)
      .default_shown();
  serve.option("--dtype", options->request.dtype, "bf16, fp32 or fp64")
      .one_of({"bf16", "fp32", "fp64"})
      .default_shown();
  serve.option("--runs", options->request.runs, "runs that are timed, of each way")
      .at_least(1)
      .default_shown();
  serve.option("--device", options->device, "auto (a GPU when there is one), cpu, cuda or cuda:N")
      .default_shown();
  serve.option("--seed", options->request.seed, "of weights, prompts and draws").default_shown();
  serve.json_flag(options->json, "print one JSON object");
  serve.on_run([options] {
    options->request.alone = std::min(options->request.alone, options->request.clients);
    options->request.device = device_named(options->device, "--device");
    const MachineProfile peak = measured_profile(/*fresh=*/false, options->request.device);
    require_one_way(options->turn, options->context, options->requests);
    const bench::Result result =
        options->turn > 0       ? bench::bench_serve_turns(options->request, options->turn)
        : options->context > 0  ? bench::bench_serve_contexts(options->request, options->context)
        : options->requests > 0 ? bench::bench_serve_soak(options->request, options->requests)
                                : bench::bench_serve(options->request);
    if (options->json)
      print_json(bench::to_json(result, peak));
    else
      print(bench::table_of({result}, peak, colours_wanted(stdout)));
    return result.correct() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

void add_bench_checkpoint(Command& group) {
  struct Options {
    bench::CheckpointRequest request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command checkpoint = group.add(
      "checkpoint",
      "what a checkpoint in memory at every step costs a step (exit 1: what lies there is not whole)",
      {{"the table", "bench checkpoint"},
       {"1.5 GB of state", "bench checkpoint --preset gpt2-124m --batch 8 --sequence 512 --steps 3"},
       {"for a script", "bench checkpoint --json"}});
  checkpoint.option("--preset", options->request.preset, "model: see presets/").default_shown();
  checkpoint.option("--batch", options->request.batch, "sequences a step")
      .at_least(1)
      .at_most(1 << 20)
      .default_shown();
  checkpoint.option("--sequence", options->request.sequence, "tokens a sequence")
      .at_least(2)
      .at_most(1 << 24)
      .default_shown();
  checkpoint.option("--steps", options->request.steps, "steps of each kind that are timed")
      .at_least(1)
      .default_shown();
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

}  // namespace

void add_bench_models(Command& group) {
  add_bench_train(group);
  add_bench_decode(group);
  add_bench_serve(group);
  add_bench_checkpoint(group);
}

}  // namespace longhaul::cli
