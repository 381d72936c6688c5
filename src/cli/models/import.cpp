// `longhaul import DIR --out CKPT` and `longhaul export CKPT --out DIR [--dtype bf16|fp32]`
#include "checkpoint/published/import.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "checkpoint/published/export.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "recipe/architecture/families.h"

namespace longhaul::cli {
namespace {

struct ConvertArguments {
  std::string from, out, dtype, family;
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
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > kShown ? text + ", …" : text;
}

std::string check_text(const checkpoint::ForwardCheck& check) {
  if (!check.left_out.empty()) return "not made: " + check.left_out;
  return fmt::format("{} random tokens, logits up to {:.4g}, mean loss {:.4g}", check.tokens, check.largest, check.mean_loss);
}

ExitCode run_import(const ConvertArguments& arguments) {
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
  table.row({"mapped", fmt::format("{} of {} to {}, {} in {}", counted(static_cast<int64_t>(report.mapped), "tensor"), "the folder",
                                   counted(report.logical_tensors, "tensor"), bytes_text(report.bytes), report.dtype)});
  table.row({"missing", "none"});
  table.row({"ignored tensors", some_of(report.ignored_tensors)});
  table.row({"ignored fields", some_of(report.ignored_fields)});
  table.row({"carried along", some_of(report.carried)});
  table.row({"tokenizer", report.tokenizer});
  table.row({"forward check", check_text(report.check)});
  print(table.text(colours_wanted(stdout)));
  print(fmt::format("\nNext:\n  {}\n  {}\n",
                    program_command("score " + shell_quoted(arguments.out) + " --ids ids.json --out logits.safetensors"),
                    program_command("train RECIPE --from " + shell_quoted(arguments.out))));
  return ExitCode::kDone;
}

ExitCode run_export(const ConvertArguments& arguments) {
  std::optional<ScalarType> dtype;
  if (!arguments.dtype.empty()) dtype = scalar_type_named(arguments.dtype);
  checkpoint::ExportReport report;
  {
    ConvertProgress progress("exporting");
    report = checkpoint::export_model(arguments.from, arguments.out, dtype, std::ref(progress), arguments.family);
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
  print(fmt::format("{} of step {} written to {} as {}: {} in {}, {}; beside them {}\nLoaded by {}\n", report.title, report.step,
                    arguments.out, report.architecture, counted(static_cast<int64_t>(report.tensors), "tensor"),
                    counted(static_cast<int64_t>(report.files), "file"), bytes_text(report.bytes), some_of(report.carried),
                    report.loaded_by));
  return ExitCode::kDone;
}

}  // namespace

void add_import(Command& program) {
  auto arguments = std::make_shared<ConvertArguments>();
  Command import = program.add("import", "make a checkpoint of a model that is published in a Hugging Face folder",
                               {{"a folder with config.json and safetensors files", "import ~/models/Qwen3-0.6B --out runs/qwen3"},
                                {"what was read, for a script", "import ~/models/gpt2 --out runs/gpt2 --json"},
                                {"then its logits", "score runs/qwen3 --ids ids.json --out logits.safetensors"}});
  import.option("DIR", arguments->from, "folder with config.json and .safetensors files").required();
  import.option("--out", arguments->out, "folder to make: what score, sample, evaluate, export and train --from take").required();
  import.json_flag(arguments->json);
  import.on_run([arguments] { return run_import(*arguments);
});
}  // namespace longhaul::cli

void add_export(Command& program) {
  auto arguments = std::make_shared<ConvertArguments>();
  Command command = program.add("export", "write a checkpoint as a Hugging Face folder",
                                {{"the newest checkpoint of a run", "export runs/qwen3 --out exported"},
                                 {"one of them, in bf16", "export runs/mine/checkpoints/step-000000200 --out exported --dtype bf16"},
                                 {"what was written, for a script", "export runs/mine --out exported --json"}});
  command.option("CKPT", arguments->from, "a checkpoint, or a run directory").required();
  command.option("--out", arguments->out, "folder to make").required();
  std::vector<std::string> families = recipe::family_names();
  std::erase(families, "longhaul");
  command.option("--family", arguments->family, "whose files are written (default: the model's own, model.family)").one_of(families);
  command.option("--dtype", arguments->dtype, "of the tensors (default: as the checkpoint has them)").one_of({"bf16", "fp32"});
  command.json_flag(arguments->json);
  command.on_run([arguments] { return run_export(*arguments); });
}

}  // namespace longhaul::cli
