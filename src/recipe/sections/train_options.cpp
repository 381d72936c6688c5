#include "recipe/sections/train_options.h"

#include <ctime>

#include "base/text/number.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

constexpr double kDay = 86400;

[[noreturn]] void refuse_time(std::string_view text) {
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "train.until_time is not a time",
       .expected =
           "\"2026-11-21T04:00\" or \"04:00\" (local time), or \"+90m\" after the start (units d, h, m, s)",
       .found = fmt::format("\"{}\"", text.substr(0, 80)),
       .where = "train.until_time",
       .hint = "train.until_time=+2h30m"});
}

// A fixed number of digits at the front of `text`, which is removed; -1 when they are not there.
int take_digits(std::string_view& text, size_t count) {
  if (text.size() < count) return -1;
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// "HH:MM" or "HH:MM:SS" and nothing after it, as seconds after midnight; -1 when it is not one.
int clock_seconds(std::string_view text) {
  const int hour = take_digits(text, 2);
  if (hour < 0 || hour > 23 || !take(text, ':')) return -1;
  const int minute = take_digits(text, 2);
  if (minute < 0 || minute > 59) return -1;
  if (text.empty()) return hour * 3600 + minute * 60;
  if (!take(text, ':')) return -1;
  const int second = take_digits(text, 2);
  return second < 0 || second > 59 || !text.empty() ? -1 : hour * 3600 + minute * 60 + second;
}

double local_time(std::tm day, int seconds) {
  day.tm_hour = seconds / 3600;
  day.tm_min = seconds / 60 % 60;
  day.tm_sec = seconds % 60;
  day.tm_isdst = -1;
  return static_cast<double>(std::mktime(&day));
}

double relative_seconds(std::string_view whole) {
  std::string_view text = whole.substr(1);
  double seconds = 0;
  while (!text.empty()) {
    const std::optional<int64_t> count = take_number<int64_t>(text);
    if (!count || *count < 0 || text.empty()) refuse_time(whole);
    const char letter = text.front();
    const double unit = letter == 'd'   ? kDay
                        : letter == 'h' ? 3600
                        : letter == 'm' ? 60
                        : letter == 's' ? 1
                                        : 0;
    if (unit == 0) refuse_time(whole);
    seconds += static_cast<double>(*count) * unit;
    text.remove_prefix(1);
  }
  if (seconds <= 0 || seconds > 3660 * kDay) refuse_time(whole);
  return seconds;
}

}  // namespace

double parse_until_time(std::string_view text, double now_unix_s) {
  if (text.empty()) return 0;
  if (text.front() == '+') return now_unix_s + relative_seconds(text);
  const auto now = static_cast<std::time_t>(now_unix_s);
  std::tm day{};
  localtime_r(&now, &day);
  if (const int seconds = clock_seconds(text); seconds >= 0) {
    const double today = local_time(day, seconds);
    if (today > now_unix_s) return today;
    day.tm_mday += 1;
    return local_time(day, seconds);
  }
  std::string_view rest = text;
  const int year = take_digits(rest, 4);
  const bool dash1 = take(rest, '-');
  const int month = take_digits(rest, 2);
  const bool dash2 = take(rest, '-');
  const int date = take_digits(rest, 2);
  const bool separated = take(rest, 'T') || take(rest, ' ');
  const int seconds = clock_seconds(rest);
  if (year < 1970 || !dash1 || month < 1 || month > 12 || !dash2 || date < 1 || date > 31 || !separated ||
      seconds < 0)
    refuse_time(text);
  day.tm_year = year - 1900;
  day.tm_mon = month - 1;
  day.tm_mday = date;
  const double moment = local_time(day, seconds);
  const auto check = static_cast<std::time_t>(moment);
  std::tm back{};
  localtime_r(&check, &back);
  if (back.tm_mday != date) refuse_time(text);  // 31 February
  return moment;
}

std::optional<double> parse_offload_share(std::string_view text) {
  if (text == "auto") return std::nullopt;
  const std::optional<double> share = parse_number<double>(text);
  if (share && *share >= 0 && *share <= 1) return share;
  throw Error({.code = ExitCode::kUsage,
               .what = "train.offload_share is not a share",
               .expected = "auto, or a number from 0 to 1",
               .found = fmt::format("\"{}\"", text.substr(0, 80)),
               .where = "train.offload_share",
               .hint = "train.offload_share=auto"});
}

std::vector<std::string_view> names_of(Dtype) { return {"bf16", "fp32", "fp64"}; }
std::vector<std::string_view> names_of(Recompute) { return {"none", "selective", "tokens", "full"}; }
std::vector<std::string_view> names_of(Offload) { return {"none", "host", "file"}; }
std::vector<std::string_view> names_of(Objective) { return {"next", "masked"}; }

void declare(OptionSet& set, TrainOptions& train) {
  set.add("train.task", train.task,
          "What is learned: \"pretrain\", the texts of [data]; \"recall\", the sequences of [recall]; or a "
          "task that was linked into the program.");
  set.add("train.steps", train.steps, "Optimizer steps of the whole run, resumed parts included.")
      .unit("steps")
      .at_least(1)
      .also_called({"max_steps", "max_iters", "iterations", "train_iters"})
      .may_change();
  set.add("train.objective", train.objective,
          "What pretrain predicts: next, at each token the one behind it; masked, tokens that were replaced "
          "by a mask token, where they stood.")
      .also_called({"mlm", "masked_lm"});
  set.add("train.masked_share", train.masked_share,
          "Of train.objective = masked: the share of the tokens that are masked, drawn anew in every epoch.")
      .above(0)
      .at_most(1)
      .also_called({"mlm_probability", "mask_ratio", "mask_prob"});
  set.add("train.distill.from", train.distill.from,
          "A trained model, as a checkpoint or run folder, whose distributions the model learns beside the "
          "labels; empty: none. It has the same tokenizer, and may have any shape.")
      .path()
      .also_called({"teacher", "teacher_model"});
  set.add("train.distill.weight", train.distill.weight,
          "Share of that in the loss: (1 - weight) * cross entropy + weight * temperature^2 * KL(teacher, "
          "model).")
      .above(0)
      .at_most(1)
      .also_called({"distill_alpha", "kd_weight"});
  set.add("train.distill.temperature", train.distill.temperature,
          "What both models' logits are divided by before they are compared.")
      .above(0)
      .at_most(100);
  set.add(
         "train.distill.hidden", train.distill.hidden,
         "Weight, beside that loss, of the mean squared distance between the outputs of both models' layers, "
         "which must be equal in number and width; 0: they are not compared.")
      .at_least(0)
      .at_most(1e6);
  set.add("train.seed", train.seed,
          "Seed of the initial weights and of every random stream except the order of the data.")
      .at_least(0);
  set.add("train.dtype", train.dtype,
          "Working precision; master weights and moments are fp32, or fp64 when this is fp64.")
      .also_called({"precision"});
  set.add("train.device", train.device,
          "Where the run computes: auto (a GPU where LibTorch has CUDA and one is visible, else the CPU), "
          "cpu, cuda, or cuda:N. Of several ranks "
          "on a machine each takes the GPU of its number there with auto and cuda.")
      .may_change();
  set.add("train.threads", train.threads, "Compute threads; 0: every core this process may use.")
      .unit("threads")
      .at_least(0)
      .at_most(65536)
      .may_change();
  set.add("train.batch", train.batch, "Sequences per optimizer step; a multiple of train.micro_batch.")
      .unit("sequences")
      .at_least(1)
      .at_most(1 << 30)
      .also_called({"batch_size", "global_batch_size"});
  set.add("train.micro_batch", train.micro_batch,
          "Sequences per forward and backward pass; changes memory and rounding, not the gradient.")
      .unit("sequences")
      .at_least(1)
      .at_most(1 << 30)
      .also_called({"micro_batch_size"})
      .may_change();
  set.add("train.sequence", train.sequence, "Tokens per sequence.")
      .unit("tokens")
      .at_least(1)
      .at_most(2147483648.0)
      .also_called({"sequence_length", "seq_length", "seq_len", "block_size"});
  set.add(
         "train.recompute", train.recompute,
         "Activations that are dropped after the forward pass and made again in the backward pass, bit for "
         "bit: none, those that are large and "
         "cheap (selective: norms, activations, rows of experts), or all of a layer but its input and what "
         "softmax attention gave (full: up to a third more work), or all but these and what recurrences gave "
         "(tokens).")
      .also_called({"activation_checkpointing", "gradient_checkpointing", "recompute_granularity"})
      .may_change();
  set.add("train.recompute_layers", train.recompute_layers,
          "Layers of each pipeline stage that train.recompute makes again, the first ones; the others keep "
          "everything. 0: all. Their bits are the same.")
      .unit("layers")
      .at_least(0)
      .also_called({"recompute_num_layers"})
      .may_change();
  set.add("train.offload", train.offload,
          "Where what layers keep for the backward pass lies meanwhile: in memory (none); in the host's "
          "memory, copied while layers compute (host, beside train.recompute = tokens); or in a file "
          "without a name that is gone with the process (file), so "
          "that memory holds that of one layer; passes wait for the disk. Beside train.recompute = full what "
          "that keeps alone.")
      .also_called({"activation_offload", "cpu_offload", "offload_activations"})
      .may_change();
  set.add("train.offload_folder", train.offload_folder,
          "Where the file of train.offload lies: a fast disk of the rank's machine; empty: data.cache.")
      .may_change();
  set.add("train.offload_share", train.offload_share,
          "Of train.offload = host: the share of the rows of products that goes to the host, 0 to 1; the "
          "other "
          "rows are made again. auto: chosen for each layer, so that copies hide behind compute.")
      .may_change();
  set.add("train.offload_memory", train.offload_memory,
          "Of train.offload = host: bytes of the host's memory for what is moved there; what exceeds them "
          "goes "
          "to a file in train.offload_folder. 0: no limit.")
      .unit("bytes")
      .at_least(0)
      .may_change();
  set.add("train.arena", train.arena,
          "Whether the activations of later steps lie at addresses that are planned from those of the first "
          "step, so that the memory of a step is one block without holes.")
      .may_change();
  set.add("train.elastic", train.elastic,
          "Micro-batches' gradients are added in one fixed tree, so that a run has the same bits on any "
          "number of data-parallel ranks, at every "
          "parallel.zero, and continued on another; takes memory for log2 of a rank's micro-batches more of "
          "the gradients. CPU only.");
  set.add("train.checkpoint_every", train.checkpoint_every,
          "Steps between checkpoints; 0: only at the end and when asked to stop; -1: Daly's interval, from "
          "what saves cost here and how often starts of the "
          "run have failed, at most 30 minutes.")
      .unit("steps")
      .at_least(-1)
      .also_called({"save_every", "save_steps", "save_interval"})
      .may_change();
  set.add("train.checkpoint_keep", train.checkpoint_keep, "Newest checkpoints that are kept; 0: all.")
      .unit("checkpoints")
      .at_least(0)
      .may_change();
  set.add("train.checkpoint_keep_every", train.checkpoint_keep_every,
          "Besides those, checkpoints whose step is a multiple of this are kept; 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add("train.checkpoint_self_test", train.checkpoint_self_test,
          "Read every checkpoint back after it is written and compare checksums.")
      .may_change();
  set.add("train.mean_hours_to_failure", train.mean_hours_to_failure,
          "What is expected between failures of the whole job before it has shown its own; for "
          "train.checkpoint_every = -1.")
      .unit("hours")
      .above(0)
      .may_change();
  set.add("train.checkpoint_memory_every", train.checkpoint_memory_every,
          "Steps between checkpoints in the memory of the run's nodes, where `longhaul launch` gives it a "
          "memory tier; 0: never; -1: as often as a hundredth "
          "of the time allows.")
      .unit("steps")
      .at_least(-1)
      .may_change();
  set.add("train.checkpoint_replicas", train.checkpoint_replicas,
          "Copies of each checkpoint in memory that other nodes keep: as many nodes may be lost at once.")
      .unit("copies")
      .at_least(0)
      .at_most(7)
      .may_change();
  set.add("train.checkpoint_replica_rate", train.checkpoint_replica_rate,
          "How fast a rank sends such copies at most, so that they leave the network to training; 0: as fast "
          "as it goes.")
      .unit("MB/s")
      .at_least(0)
      .may_change();
  set.add("train.evaluate_every", train.evaluate_every,
          "Steps between evaluations on the held-out part; 0: never.")
      .unit("steps")
      .at_least(0)
      .also_called({"eval_every", "eval_interval", "eval_steps"})
      .may_change();
  set.add("train.evaluate_tokens", train.evaluate_tokens,
          "Held-out tokens read by evaluations on the way; 0: all. The last evaluation reads all of them.")
      .unit("tokens")
      .at_least(0)
      .may_change();
  set.add("train.until_time", train.until_time,
          "Save and stop then: \"2026-11-21T04:00\" or \"04:00\" local time, or \"+90m\" after the start; "
          "empty: no limit.")
      .may_change();
  set.add("train.log_every", train.log_every,
          "Steps between lines on the terminal; events.jsonl has every step.")
      .unit("steps")
      .at_least(1)
      .may_change();
  set.add("train.skip_nonfinite", train.skip_nonfinite,
          "A step whose loss or gradient is NaN or infinite changes nothing and is counted; otherwise it "
          "ends the run.")
      .may_change();
  set.add("train.nonfinite_limit", train.nonfinite_limit,
          "Skipped steps in a row that end the run with exit code 67.")
      .unit("steps")
      .at_least(1)
      .may_change();
}

}  // namespace longhaul::recipe
