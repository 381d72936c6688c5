// `longhaul import DIR --out CKPT [--adapter PEFT]`, `longhaul export CKPT --out DIR [--dtype bf16|fp32]`,
// `longhaul export CKPT --gguf FILE [--type f16|q8_0]` and `longhaul export CKPT --adapter DIR`
#include "checkpoint/published/import.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "checkpoint/adapters/peft.h"
#include "checkpoint/published/export.h"
#include "checkpoint/published/export_gguf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "recipe/architecture/families.h"

namespace longhaul::cli {
namespace {

struct ConvertArguments {
  std::string from, out, dtype, family, gguf, type, adapter;
  bool json = false;
};

// A bar whose length is known with the first bytes.
class ConvertProgress {
 public:
  explicit ConvertProgress(std::string label) : label_(std::move(label)) {}
  void operator()(int64_t bytes, int64_t total) {
    if (!bar_) bar_.emplace(label_, total, Progress::Unit::kBytes);
    bar_->advance(bytes);
  }

 private:
  std::string label_;
  std::optional<Progress> bar_;
};

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  if (names.empty()) return "none";
  std::string text = fmt::format("{}: ", names.size());
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > kShown ? text + ", …" : text;
}

std::string check_text(const checkpoint::ForwardCheck& check) {
  if (!check.left_out.empty()) return "not made: " + check.left_out;
  return fmt::format("{} random tokens, logits up to {:.4g}, mean loss {:.4g}", check.tokens, check.largest,
                     check.mean_loss);
}

std::string adapter_text(const checkpoint::AdapterReport& report) {
  return fmt::format(
      "{} of kind {}, rank {}, alpha {:g}, {} trained; beside {}", counted(report.adapters, "adapter"),
      recipe::names_of(report.lora.kind)[static_cast<size_t>(report.lora.kind)], report.lora.rank,
      report.lora.alpha, counted(report.values, "value"), fmt::join(report.modules, ", "));
}

nlohmann::ordered_json adapter_json(const checkpoint::AdapterReport& report, const std::string& out) {
  return {{"out", out},
          {"kind", recipe::names_of(report.lora.kind)[static_cast<size_t>(report.lora.kind)]},
          {"rank", report.lora.rank},
          {"alpha", report.lora.alpha},
          {"adapters", report.adapters},
          {"values", report.values},
          {"modules", report.modules}};
}

ExitCode run_import_adapter(const ConvertArguments& arguments) {
  checkpoint::AdapterReport report;
  {
    ConvertProgress progress("importing");
    report = checkpoint::import_adapter(arguments.from, arguments.adapter, arguments.out, std::ref(progress));
  }
  if (arguments.json) {
    print_json(adapter_json(report, arguments.out));
    return ExitCode::kDone;
  }
  print(fmt::format("{}: {}\n\nNext:\n  {}\n  {}\n", arguments.out, adapter_text(report),
                    program_command("sample " + shell_quoted(arguments.out) + " --prompt TEXT"),
                    program_command("checkpoint merge " + shell_quoted(arguments.out) + " DIR")));
  return ExitCode::kDone;
}

ExitCode run_import(const ConvertArguments& arguments) {
  if (!arguments.adapter.empty()) return run_import_adapter(arguments);
  checkpoint::ImportReport report;
  {
    ConvertProgress progress("importing");
    report = checkpoint::import_model(arguments.from, arguments.out, std::ref(progress));
  }
  if (arguments.json) {
    print_json({{"out", arguments.out},
                {"family", report.model.family},
                {"parameters", report.parameters},
                {"bytes", report.bytes},
                {"dtype", report.dtype},
                {"mapped", report.mapped},
                {"missing", 0},
                {"ignored_tensors", report.ignored_tensors},
                {"ignored_fields", report.ignored_fields},
                {"carried", report.carried},
                {"check",
                 {{"tokens", report.check.tokens},
                  {"mean_loss", report.check.mean_loss},
                  {"largest_logit", report.check.largest},
                  {"left_out", report.check.left_out}}}});
    return ExitCode::kDone;
  }
  observe::Table table(arguments.out, {{""}, {""}});
  table.row({"model", fmt::format("{}, {} parameters", report.title, count_text(report.parameters))});
  table.row({"mapped",
             fmt::format("{} of {} to {}, {} in {}", counted(static_cast<int64_t>(report.mapped), "tensor"),
                         "the folder", counted(report.logical_tensors, "tensor"), bytes_text(report.bytes),
                         report.dtype)});
  table.row({"missing", "none"});
  table.row({"ignored tensors", some_of(report.ignored_tensors)});
  table.row({"ignored fields", some_of(report.ignored_fields)});
  table.row({"carried along", some_of(report.carried)});
  table.row({"tokenizer", report.tokenizer});
  table.row({"forward check", check_text(report.check)});
  print(table.text(colours_wanted(stdout)));
  print(fmt::format(
      "\nNext:\n  {}\n  {}\n",
      program_command("score " + shell_quoted(arguments.out) + " --ids ids.json --out logits.safetensors"),
      program_command("train RECIPE --from " + shell_quoted(arguments.out))));
  return ExitCode::kDone;
}

void check_export(const ConvertArguments& arguments) {
  const auto refuse = [](const std::string& what, const std::string& expected, const std::string& found,
                         const std::string& hint) {
    throw Error({.code = ExitCode::kUsage,
                 .what = what,
                 .expected = expected,
                 .found = found,
                 .where = "command line",
                 .hint = hint});
  };
  const bool folder = !arguments.out.empty(), file = !arguments.gguf.empty(),
             adapter = !arguments.adapter.empty();
  const int forms = (folder ? 1 : 0) + (file ? 1 : 0) + (adapter ? 1 : 0);
  if (forms != 1)
    refuse("an export has one form", "--out DIR, --gguf FILE or --adapter DIR",
           forms == 0 ? "none" : std::to_string(forms), "--out exported");
  if (adapter && !(arguments.dtype + arguments.family).empty())
    refuse("--dtype and --family are of whole models", "--adapter DIR alone", "both", "--adapter exported");
  if (folder && !arguments.type.empty())
    refuse("--type is of GGUF files", "--gguf FILE with --type", "--out", "--dtype bf16");
  if (adapter && !arguments.type.empty())
    refuse("--type is of GGUF files", "--gguf FILE with --type", "--adapter", "--adapter exported");
  if (file && !arguments.dtype.empty())
    refuse("--dtype is of folders", "--out DIR with --dtype", "--gguf", "--type f16");
}

ExitCode run_export_gguf(const ConvertArguments& arguments) {
  const auto type = arguments.type == "q8_0" ? storage::GgufType::kQ8_0 : storage::GgufType::kF16;
  checkpoint::GgufReport report;
  {
    ConvertProgress progress("exporting");
    report =
        checkpoint::export_gguf(arguments.from, arguments.gguf, type, std::ref(progress), arguments.family);
  }
  const std::string type_name = arguments.type.empty() ? "f16" : arguments.type;
  if (arguments.json) {
    print_json({{"gguf", arguments.gguf},
                {"family", report.family},
                {"architecture", report.architecture},
                {"type", type_name},
                {"step", report.step},
                {"tensors", report.tensors},
                {"tensors_of_type", report.narrow},
                {"bytes", report.bytes},
                {"tokenizer", report.tokenizer},
                {"chat_template", report.chat_template}});
    return ExitCode::kDone;
  }
  print(fmt::format("step {} written to {} as {}: {}, {} of them {}, {}; {}, {}\nLoaded by llama.cpp\n",
                    report.step, arguments.gguf, report.architecture, counted(report.tensors, "tensor"),
                    report.narrow, type_name, bytes_text(report.bytes),
                    report.tokenizer ? "with its tokenizer" : "without a tokenizer",
                    report.chat_template ? "with its chat template" : "without a chat template"));
  return ExitCode::kDone;
}

ExitCode run_export_adapter(const ConvertArguments& arguments) {
  const checkpoint::AdapterReport report = checkpoint::export_adapter(arguments.from, arguments.adapter);
  if (arguments.json)
    print_json(adapter_json(report, arguments.adapter));
  else
    print(fmt::format("{}: {}\nLoaded by peft\n", arguments.adapter, adapter_text(report)));
  return ExitCode::kDone;
}

ExitCode run_export(const ConvertArguments& arguments) {
  check_export(arguments);
  if (!arguments.adapter.empty()) return run_export_adapter(arguments);
  if (!arguments.gguf.empty()) return run_export_gguf(arguments);
  std::optional<ScalarType> dtype;
  if (!arguments.dtype.empty()) dtype = scalar_type_named(arguments.dtype);
  checkpoint::ExportReport report;
  {
    ConvertProgress progress("exporting");
    report =
        checkpoint::export_model(arguments.from, arguments.out, dtype, std::ref(progress), arguments.family);
  }
  if (arguments.json) {
    print_json({{"out", arguments.out},
                {"family", report.family},
                {"architecture", report.architecture},
                {"loaded_by", report.loaded_by},
                {"step", report.step},
                {"tensors", report.tensors},
                {"files", report.files},
                {"bytes", report.bytes},
                {"carried", report.carried}});
    return ExitCode::kDone;
  }
  print(fmt::format("{} of step {} written to {} as {}: {} in {}, {}; beside them {}\nLoaded by {}\n",
                    report.title, report.step, arguments.out, report.architecture,
                    counted(static_cast<int64_t>(report.tensors), "tensor"),
                    counted(static_cast<int64_t>(report.files), "file"), bytes_text(report.bytes),
                    some_of(report.carried), report.loaded_by));
  return ExitCode::kDone;
}

}  // namespace

void add_import(Command& program) {
  auto arguments = std::make_shared<ConvertArguments>();
  Command import = program.add(
      "import", "make a checkpoint of a model that is published in a Hugging Face folder",
      {{"a folder with config.json and safetensors files", "import ~/models/Qwen3-0.6B --out runs/qwen3"},
       {"what was read, for a script", "import ~/models/gpt2 --out runs/gpt2 --json"},
       {"an adapter of PEFT onto it", "import runs/qwen3 --adapter ~/adapters/mine --out runs/mine"},
       {"then its logits", "score runs/qwen3 --ids ids.json --out logits.safetensors"}});
  import
      .option("DIR", arguments->from,
              "folder with config.json and .safetensors files; with --adapter: an imported model")
      .required();
  import.option("--adapter", arguments->adapter,
                "folder of PEFT (adapter_config.json), whose adapter is put beside the model's weights");
  import
      .option("--out", arguments->out,
              "folder to make: what score, sample, evaluate, export and train --from take")
      .required();
  import.json_flag(arguments->json);
  import.on_run([arguments] { return run_import(*arguments);
});
}  // namespace longhaul::cli

void add_export(Command& program) {
  auto arguments = std::make_shared<ConvertArguments>();
  Command command = program.add(
      "export", "write a checkpoint as a Hugging Face folder, or as a GGUF file",
      {{"the newest checkpoint of a run", "export runs/qwen3 --out exported"},
       {"one of them, in bf16", "export runs/mine/checkpoints/step-000000200 --out exported --dtype bf16"},
       {"the adapters of a run, for peft", "export runs/mine --adapter exported"},
       {"for llama.cpp, in eight bits", "export runs/mine --gguf mine.gguf --type q8_0"}});
  command.option("CKPT", arguments->from, "a checkpoint, or a run directory").required();
  command.option("--out", arguments->out, "folder to make");
  command.option("--gguf", arguments->gguf, "file to make instead, which llama.cpp reads");
  command.option("--adapter", arguments->adapter,
                 "folder to make instead, of the adapters alone, which peft reads");
  command.option("--type", arguments->type, "with --gguf: of its matrices (default: f16); vectors stay fp32")
      .one_of({"f16", "q8_0"});
  std::vector<std::string> families = recipe::family_names();
  std::erase(families, "longhaul");
  command
      .option("--family", arguments->family,
              "whose files are written (default: the model's own, model.family)")
      .one_of(families);
  command.option("--dtype", arguments->dtype, "of the tensors (default: as the checkpoint has them)")
      .one_of({"bf16", "fp32"});
  command.json_flag(arguments->json);
  command.on_run([arguments] { return run_export(*arguments); });
}

}  // namespace longhaul::cli
