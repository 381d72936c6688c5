#include "recipe/check.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/text/text.h"
#include "recipe/architecture/families.h"
#include "recipe/check_batches.h"
#include "recipe/mixers.h"
#include "recipe/sections/optim_groups.h"
#include "recipe/sections/optimizers.h"

namespace longhaul::recipe {

namespace {

using Problems = std::vector<Problem>;

constexpr int64_t kByteTokens = 257;  // 256 bytes and the end of a document

// Parameters of a layer's mixers, in doubles, because sizes are checked before anything multiplies them.
double elements(const ModelConfig& model, const std::vector<MixerTensor>& tensors) {
  double sum = 0;
  for (const MixerTensor& tensor : tensors) {
    const double each =
        static_cast<double>(tensor.out) * static_cast<double>(std::max<int64_t>(1, tensor.in));
    sum += tensor.of_expert ? each * static_cast<double>(model.experts) : each;
  }
  return sum;
}

void parameter_limit(const ModelConfig& model, Problems& out) {
  double of_layer = 0;
  for (const Mixer mixer : mixers_used(model))
    of_layer = std::max(of_layer, elements(model, entry_of(mixer).tensors(model)));
  double of_channel = 0;
  for (const ChannelMixer mixer : model.channel_mixers_used())
    of_channel = std::max(of_channel, elements(model, entry_of(mixer).tensors(model)));
  of_layer += of_channel;
  const double parameters = static_cast<double>(model.layers + model.predict_ahead) * of_layer +
                            2.0 * static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
  if (parameters > 1e15) {
    out.push_back({{"model.layers", "model.hidden", "model.experts", "model.intermediate"},
                   fmt::format("the model would have about {:.1e} parameters; sizes are counted up to 1e15",
                               parameters),
                   "check for a zero too many"});
  }
}

void positions(const ModelConfig& model, Problems& out) {
  if (model.position == Position::kLearned && model.max_positions == 0) {
    out.push_back({{"model.position", "model.max_positions"},
                   "learned positions need a table: model.max_positions is 0",
                   "model.max_positions=1024"});
  }
}

bool is_device(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  if (!text.starts_with("cuda:")) return false;
  const std::string digits = text.substr(5);
  return !digits.empty() && digits.size() <= 3 &&
         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

// An option whose text is read by a function that throws.
void readable(const char* option, const std::function<void()>& read, Problems& out) {
  try {
    read();
  } catch (const Error& error) {
    out.push_back({{option},
                   fmt::format("{}: {}", error.fields().what, error.fields().found),
                   error.fields().expected});
  }
}

void training(const Recipe& recipe, Problems& out) {
  const TrainOptions& train = recipe.train;
  if (train.batch % train.micro_batch != 0) {
    const bool smaller = train.micro_batch > train.batch;
    out.push_back({{"train.batch", "train.micro_batch"},
                   fmt::format("train.batch = {} must be a multiple of train.micro_batch = {}", train.batch,
                               train.micro_batch),
                   smaller
                       ? fmt::format("train.micro_batch={}", train.batch)
                       : fmt::format("train.batch={}", train.batch / train.micro_batch * train.micro_batch)});
  }
  if (recipe.model.max_positions > 0 && train.sequence > recipe.model.max_positions &&
      recipe.model.position != Position::kNone) {
    out.push_back({{"train.sequence", "model.max_positions"},
                   fmt::format("train.sequence = {} is longer than the model's model.max_positions = {}",
                               train.sequence, recipe.model.max_positions),
                   fmt::format("train.sequence={}", recipe.model.max_positions)});
  }
  const SequenceLimit limit = sequence_limit(recipe.model);
  if (train.sequence > limit.tokens && limit.option != "model.max_positions") {
    out.push_back(
        {{"train.sequence", std::string(limit.option)},
         fmt::format("train.sequence = {} is longer than {} = {}", train.sequence, limit.option,
                     limit.tokens),
         fmt::format("{0}={1}, or train.sequence={2}", limit.option, train.sequence, limit.tokens)});
  }
  if (!is_device(train.device)) {
    out.push_back(
        {{"train.device"},
         fmt::format("train.device = {} is none of auto, cpu, cuda, cuda:N", Value(train.device).described()),
         "train.device=auto"});
  }
  readable(
      "train.until_time", [&] { parse_until_time(train.until_time, 0); }, out);
  readable(
      "train.offload_share", [&] { parse_offload_share(train.offload_share); }, out);
  if (train.offload == Offload::kHost && train.recompute != Recompute::kTokens) {
    out.push_back({{"train.offload", "train.recompute"},
                   "train.offload = host moves what train.recompute = tokens keeps",
                   "train.recompute=tokens, or train.offload=file"});
  }
}

// The frozen model is whole on every rank, and reads what this rank reads.
void distillation(const Recipe& recipe, Problems& out) {
  if (!recipe.train.distill.wanted()) return;
  const ParallelOptions& parallel = recipe.parallel;
  const std::pair<const char*, int64_t> axes[] = {{"parallel.tp", parallel.tp},
                                                  {"parallel.pp", parallel.pp},
                                                  {"parallel.cp", parallel.cp},
                                                  {"parallel.ep", parallel.ep},
                                                  {"parallel.etp", parallel.etp}};
  for (const auto& [name, ranks] : axes) {
    if (ranks == 1) continue;
    out.push_back({{"train.distill.from", name},
                   fmt::format("{} = {}: a model is learnt from by ranks that hold all of it", name, ranks),
                   fmt::format("{}=1 (data ranks and parallel.zero know train.distill)", name)});
  }
  if (recipe.train.task != "pretrain") {
    out.push_back({{"train.distill.from", "train.task"},
                   fmt::format("train.task = {} does not learn from another model", recipe.train.task),
                   "train.task=pretrain, or train.distill.from="});
  }
  if (recipe.model.predict_ahead > 0) {
    out.push_back({{"train.distill.from", "model.predict_ahead"},
                   "modules that predict further ahead have nothing to learn in the other model",
                   "model.predict_ahead=0"});
  }
  if (recipe.train.objective != Objective::kNext) {
    out.push_back({{"train.distill.from", "train.objective"},
                   "train.distill is for models that predict the next token",
                   "train.objective=next"});
  }
}

void shares(const ParallelOptions& parallel, Problems& out) {
  if (parallel.zero_copies == 1 || parallel.zero > 0) return;
  out.push_back(
      {{"parallel.zero_copies", "parallel.zero"},
       fmt::format(
           "parallel.zero_copies = {}: with parallel.zero = 0 ranks share nothing that could have copies",
           parallel.zero_copies),
       "parallel.zero=1, or parallel.zero_copies=1"});
}

// Checks how rows travel to experts.
void padding(const Recipe& recipe, Problems& out) {
  if (!recipe.parallel.experts.padded) return;
  if (recipe.model.experts == 0 || recipe.model.router.capacity_factor == 0) {
    out.push_back({{"parallel.pad_to_capacity", "model.capacity_factor"},
                   "parallel.pad_to_capacity = true, and experts without a capacity take any number of rows",
                   "model.capacity_factor=1.25, or parallel.pad_to_capacity=false"});
  }
  if (recipe.parallel.experts.dispatcher != Dispatcher::kAllToAll) {
    out.push_back({{"parallel.pad_to_capacity", "parallel.dispatcher"},
                   fmt::format("parallel.pad_to_capacity = true is for parallel.dispatcher = all-to-all: {} "
                               "sends tokens, not rows of experts",
                               name_of_value(recipe.parallel.experts.dispatcher)),
                   "parallel.dispatcher=all-to-all, or parallel.pad_to_capacity=false"});
  }
}

// The options that are impossible with a fixed order of micro-batches (docs/design/elastic.md).
void elastic(const Recipe& recipe, Problems& out) {
  if (!recipe.train.elastic) return;
  const ParallelOptions& parallel = recipe.parallel;
  if (parallel.ep > 1 || parallel.etp > 1) {
    out.push_back({{"train.elastic", "parallel.ep", "parallel.etp"},
                   "train.elastic = true: an expert that several ranks share gets the tokens of several "
                   "micro-batches at once, and one "
                   "micro-batch's part of its gradient cannot be told",
                   "parallel.ep=1 parallel.etp=1, or train.elastic=false"});
  }
  if (parallel.zero_copies > 1) {
    out.push_back({{"train.elastic", "parallel.zero_copies"},
                   "train.elastic = true: gradients are added up in one tree over all data ranks, and not "
                   "group by group",
                   "parallel.zero_copies=1, or train.elastic=false"});
  }
  if (recipe.model.shares_room()) {
    out.push_back({{"train.elastic", "model.capacity_of"},
                   fmt::format("train.elastic = true: with model.capacity_of = {} all of a step's sequences "
                               "are one micro-batch",
                               name_of_value(recipe.model.router.capacity_of)),
                   "model.capacity_of=sequence, or train.elastic=false"});
  }
  if (recipe.model.shares_batch() && !recipe.model.shares_room()) {
    out.push_back({{"train.elastic", "model.auxiliary_loss_of"},
                   fmt::format("train.elastic = true: with model.auxiliary_loss_of = {} one micro-batch's "
                               "gradient depends on those beside it",
                               names_of(BalanceOf{})[static_cast<size_t>(recipe.model.router.balance_of)]),
                   "model.auxiliary_loss_of=sequence, or train.elastic=false"});
  }
  const PipelineSchedule schedule = parallel.pipeline.schedule;
  if (schedule != PipelineSchedule::k1F1B) {
    out.push_back({{"train.elastic", "parallel.schedule"},
                   fmt::format("train.elastic = true: under parallel.schedule = {} a rank adds gradients of "
                               "several micro-batches in turns",
                               names_of(schedule)[static_cast<size_t>(schedule)]),
                   "parallel.schedule=1f1b, or train.elastic=false"});
  }
  std::vector<std::string> names = {recipe.optim.name};
  for (const OptimGroup& group : recipe.optim.groups) {
    if (!group.name.empty()) names.push_back(group.name);
  }
  for (const std::string& name : names) {
    if (parallel.zero == 0 || optimizer_entry(name).of_elements) continue;
    out.push_back({{"train.elastic", "optim.name", "parallel.zero"},
                   fmt::format("train.elastic = true: with parallel.zero = {} {} sums numbers of a matrix "
                               "over the ranks' shares, and the "
                               "sum's last bits depend on how many there are",
                               parallel.zero, name),
                   "parallel.zero=0, or optim.name=adamw"});
  }
  if (recipe.train.device.starts_with("cuda")) {
    out.push_back({{"train.elastic", "train.device"},
                   "train.elastic = true is for training on the CPU",
                   "train.device=cpu"});
  }
}

// Fragments are sent one after the other, so that each has arrived before the next one goes.
void late_exchanges(const Recipe& recipe, const auto& refuse) {
  const OuterOptions& options = recipe.optim.outer;
  if (options.method != Outer::kNone && recipe.optim.average > 0)
    refuse({"optim.outer", "optim.average"},
           "the weights of workers of an outer loop are not averaged over steps", "optim.average=0");
  const int64_t fragments = outer_fragments_of(options), layers = recipe.model.layers;
  if (fragments > layers) {
    refuse({"optim.outer_fragments", "model.layers"},
           fmt::format("{} fragments of {} layers: some would be empty", fragments, layers),
           fmt::format("optim.outer_fragments={}", layers));
  }
  if (options.delay > 0 && !keeps_local_work(options.method)) {
    refuse({"optim.outer_delay"}, "optim.outer_delay is for delay_corrected and streaming",
           "optim.outer_delay=0");
  } else if (options.delay > 0 && options.every == 0) {
    refuse({"optim.outer_delay", "optim.outer_every"},
           "optim.outer_delay is a part of a round whose length is chosen only later",
           fmt::format("optim.outer_every={}, or optim.outer_delay=0", 2 * options.delay * fragments));
  } else if (options.every % fragments != 0) {
    refuse({"optim.outer_every", "optim.outer_fragments"},
           fmt::format("{} fragments cannot be sent at equal distances within optim.outer_every = {} steps",
                       fragments, options.every),
           fmt::format("optim.outer_every={}", (options.every / fragments + 1) * fragments));
  } else if (options.delay > options.every / fragments) {
    refuse({"optim.outer_delay", "optim.outer_every"},
           fmt::format(
               "an exchange would go on for optim.outer_delay = {} steps, and the next one begins after {}",
               options.delay, options.every / fragments),
           fmt::format("optim.outer_delay={}, or 0", options.every / fragments));
  }
}

// States narrower than the arithmetic (docs/design/optimizers.md).
void narrow_states(const Recipe& recipe, Problems& out) {
  std::set<std::string_view> dtypes = {names_of(StateDtype{})[static_cast<size_t>(recipe.optim.state_dtype)]};
  for (const OptimGroup& group : recipe.optim.groups) dtypes.insert(group.state_dtype);
  dtypes.erase(""), dtypes.erase("float32");
  if (dtypes.empty()) return;
  const std::string states = fmt::format("optim.state_dtype = {}", *dtypes.begin());
  if (recipe.train.dtype == Dtype::kFp64) {
    out.push_back({{"optim.state_dtype", "train.dtype"},
                   states + ": with train.dtype = fp64 all states are fp64, which is for proofs",
                   "optim.state_dtype=float32, or train.dtype=fp32"});
  }
  if (recipe.train.device.starts_with("cuda"))
    out.push_back({{"optim.state_dtype", "train.device"},
                   states + " is for training on the CPU",
                   "optim.state_dtype=float32"});
}

// The options that are impossible with islands that train independently (docs/design/outer-loops.md). Their
// number is known when a run begins.
void outer(const Recipe& recipe, Problems& out) {
  const OuterOptions& options = recipe.optim.outer;
  const auto refuse = [&](std::vector<std::string> keys, std::string reason, std::string hint) {
    keys.insert(keys.begin(), "optim.outer");
    out.push_back({std::move(keys), std::move(reason), std::move(hint)});
  };
  const std::string method(names_of(options.method)[static_cast<size_t>(options.method)]);
  if (options.method == Outer::kNone) {
    if (recipe.parallel.workers == 0 && options.every == 0) return;
    const std::string key = recipe.parallel.workers > 0 ? "parallel.workers" : "optim.outer_every";
    return refuse({key}, fmt::format("{} is for outer loops, and optim.outer = none", key),
                  fmt::format("optim.outer=co2, or {}=0", key));
  }
  if (recipe.train.elastic) {
    refuse(
        {"train.elastic"},
        fmt::format(
            "train.elastic = true: what {} workers learn between two exchanges depends on how many there are",
            method),
        "train.elastic=false, or optim.outer=none");
  }
  if (recipe.train.device.starts_with("cuda"))
    refuse({"train.device"}, "outer loops are for training on the CPU", "train.device=cpu");
  if (recipe.model.router.bias_rate > 0) {
    refuse({"model.router_bias_rate"},
           "routers' biases that follow the choices of one worker's tokens would be each worker's own",
           "model.router_bias_rate=0");
  }
  if (recipe.model.experts > 0 && recipe.model.router.choice == RouterChoice::kQuantile) {
    refuse({"model.router_choice"},
           "routers' thresholds that follow one worker's tokens would be each worker's own",
           "model.router_choice=score");
  }
  if (recipe.guard.on_spike >= OnSpike::kSkip) {
    refuse({"guard.on_spike"}, "workers that train by themselves cannot leave out a step or go back together",
           "guard.on_spike=tell");
  }
  late_exchanges(recipe, refuse);
  if (options.every == 0) return;
  if (2 * options.every > recipe.train.steps) {
    refuse({"optim.outer_every", "train.steps"},
           fmt::format("rounds of optim.outer_every = {} steps do not fit twice into train.steps = {}",
                       options.every, recipe.train.steps),
           fmt::format("optim.outer_every={}", std::max<int64_t>(1, recipe.train.steps / 4)));
  }
  for (const OptimStage& stage : recipe.optim.stages) {
    if (stage.from_step == 0 || (stage.from_step - 1) % options.every == 0) continue;
    const int64_t begin = (stage.from_step - 1) / options.every * options.every + 1;
    refuse({"optim.outer_every", "optim.stages"},
           fmt::format("a stage from step {} begins inside a round of optim.outer_every = {} steps, whose "
                       "workers' gradients count alike",
                       stage.from_step, options.every),
           fmt::format("from_step = {} or {}", begin, begin + options.every));
  }
}

// For muP the change of an optimizer's step with width must be known, which is so for some optimizers only.
void width(const Recipe& recipe, Problems& out) {
  if (recipe.model.mup_base_hidden == 0) return;
  for (size_t number = 0; number <= recipe.optim.groups.size(); ++number) {
    const OptimOptions rule = optim_rule(recipe.optim, number).options;
    if (width_rule_of(rule) != WidthRule::kUnknown) continue;
    out.push_back({{"model.mup_base_hidden", "optim.name"},
                   fmt::format("model.mup_base_hidden = {}: how far {} moves a matrix as the model becomes "
                               "wider has no published rule",
                               recipe.model.mup_base_hidden, rule.name),
                   rule.name == "adafactor" ? "optim.relative_step=false optim.scale_by_weights=false"
                                            : "optim.name=adamw"});
  }
}

void mix(const DataOptions& options, Problems& out) {
  const std::vector<DataMixPoint>& points = options.mix;
  if (!points.empty() && !options.weights.empty())
    out.push_back({{"data.mix", "data.weights"},
                   "data.mix and data.weights both say how sources are blended",
                   "leave one of them out"});
  std::vector<double> most(options.source.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const auto refuse = [&](const std::string& reason, const std::string& hint) {
      out.push_back({{"data.mix"}, fmt::format("point {} of data.mix: {}", i + 1, reason), hint});
    };
    const std::vector<double>& weights = points[i].weights;
    if (weights.size() != options.source.size()) {
      refuse(fmt::format("{} for {} of data.source", counted(static_cast<int64_t>(weights.size()), "weight"),
                         counted(static_cast<int64_t>(options.source.size()), "entry", "entries")),
             "give one weight per source");
      return;
    }
    if (std::ranges::none_of(weights, [](double weight) { return weight > 0; }))
      refuse("no weight is above 0", "give one source a weight");
    if (i > 0 && points[i].at_tokens < points[i - 1].at_tokens)
      refuse("is before the point before it", "list points in order");
    for (size_t s = 0; s < most.size(); ++s) most[s] = std::max(most[s], weights[s]);
  }
  for (size_t s = 0; s < most.size() && !points.empty(); ++s) {
    if (most[s] > 0) continue;
    out.push_back({{"data.mix", "data.source"},
                   fmt::format("{} of data.source has no weight at any point of data.mix",
                               Value(options.source[s]).described()),
                   "leave it out of data.source, or give it a weight"});
  }
}

void data(const Recipe& recipe, Problems& out) {
  const DataOptions& options = recipe.data;
  if (options.source.empty() || std::ranges::any_of(options.source, &std::string::empty)) {
    out.push_back({{"data.source"},
                   "data.source names nothing to train on",
                   "data.source=/a/folder/of/text, or data.source=libtorch"});
  }
  if (std::ranges::any_of(options.validation, &std::string::empty)) {
    out.push_back({{"data.validation"},
                   "data.validation has an entry that names nothing",
                   "data.validation=/a/folder/of/text, or leave it out"});
  }
  if (std::ranges::any_of(options.include, &std::string::empty)) {
    out.push_back({{"data.include"},
                   "data.include has an empty entry: every name ends so",
                   "data.include=.py,.md, or leave it out"});
  }
  if (!options.weights.empty() && options.weights.size() != options.source.size()) {
    out.push_back({{"data.weights", "data.source"},
                   fmt::format("data.weights has {} for {} of data.source",
                               counted(static_cast<int64_t>(options.weights.size()), "number"),
                               counted(static_cast<int64_t>(options.source.size()), "entry", "entries")),
                   "give one weight per source, or none"});
  }
  mix(options, out);
  if (recipe.train.task == "recall") return;  // reads no text
  // A row of the embedding after the tokenizer's.
  const int64_t mask = recipe.train.objective == Objective::kMasked ? 1 : 0;
  if (options.tokenizer.empty()) {
    out.push_back({{"data.tokenizer"},
                   "data.tokenizer is empty",
                   "data.tokenizer=train, bytes, or the path of a tokenizer.json"});
  } else if (options.tokenizer == "train" && options.vocabulary + mask > recipe.model.vocabulary) {
    out.push_back(
        {{"data.vocabulary", "model.vocabulary"},
         fmt::format(
             "data.vocabulary = {} tokens{} do not fit the model.vocabulary = {} rows of the embedding",
             options.vocabulary, mask > 0 ? " and a mask token" : "", recipe.model.vocabulary),
         fmt::format("data.vocabulary={}", std::max<int64_t>(recipe.model.vocabulary - mask, kByteTokens))});
  } else if (options.tokenizer == "bytes" && recipe.model.vocabulary < kByteTokens + mask) {
    out.push_back(
        {{"data.tokenizer", "model.vocabulary"},
         fmt::format("data.tokenizer = bytes needs {} rows{}; model.vocabulary = {}", kByteTokens + mask,
                     mask > 0 ? ", one of them for train.objective = masked" : "", recipe.model.vocabulary),
         fmt::format("model.vocabulary={}", kByteTokens + mask)});
  }
}

// Whether a model may read the tokens that it is to predict.
void objective(const Recipe& recipe, Problems& out) {
  const bool masked = recipe.train.objective == Objective::kMasked;
  if (recipe.train.task != "pretrain") {
    if (masked || !recipe.model.causal) {
      out.push_back(
          {{"train.task", "train.objective", "model.causal"},
           fmt::format(
               "train.task = {} predicts what comes next: its models are causal, and its objective is next",
               recipe.train.task),
           "train.objective=next model.causal=true, or train.task=pretrain"});
    }
    return;
  }
  if (!masked && !recipe.model.causal) {
    out.push_back({{"model.causal", "train.objective"},
                   "model.causal = false: every token reads the one behind it, which train.objective = next "
                   "is to predict",
                   "train.objective=masked, or model.causal=true"});
  }
  if (masked && recipe.model.predict_ahead > 0) {
    out.push_back(
        {{"train.objective", "model.predict_ahead"},
         fmt::format("train.objective = masked: there is no token further ahead for model.predict_ahead = {}",
                     recipe.model.predict_ahead),
         "model.predict_ahead=0, or train.objective=next"});
  }
}

// Documents that are grids are whole in a row: after a cut a token's place on the grid would be unknown.
void grid(const Recipe& recipe, Problems& out) {
  if (grid_of(recipe.model).empty() || recipe.train.task != "pretrain") return;
  const int64_t each = recipe.model.lightnet.tokens_of_grid() + 1;
  if (recipe.train.sequence % each != 0) {
    out.push_back(
        {{"train.sequence", "model.lightnet.grid"},
         fmt::format("train.sequence = {} is no multiple of {}: a grid of model.lightnet.grid and its "
                     "separator, which no row may cut",
                     recipe.train.sequence, each),
         fmt::format("train.sequence={}", std::max<int64_t>(1, recipe.train.sequence / each) * each)});
  }
  if (!recipe.data.document_boundaries) {
    out.push_back({{"data.document_boundaries", "model.lightnet.grid"},
                   "data.document_boundaries = false: of several grids in one document nobody would know "
                   "where a token stands",
                   "data.document_boundaries=true"});
  }
}

void recall(const Recipe& recipe, Problems& out) {
  if (recipe.recall.vocabulary <= recipe.model.vocabulary) return;
  out.push_back({{"recall.vocabulary", "model.vocabulary"},
                 fmt::format("recall.vocabulary = {} is more than the model's {}", recipe.recall.vocabulary,
                             recipe.model.vocabulary),
                 "recall.vocabulary=0"});
}

void refuse_all(const Problems& found, const LoadedRecipe* loaded) {
  if (found.empty()) return;
  std::string reasons, where, hints;
  for (const Problem& problem : found) {
    reasons += (reasons.empty() ? "" : "\n  ") + problem.reason;
    hints += (hints.empty() ? "" : "; ") + problem.hint;
    if (!loaded) continue;
    for (const std::string& key : problem.keys) {
      const std::string origin = fmt::format("{}: {}", key, loaded->origin(key).text());
      if (where.find(origin) == std::string::npos) where += (where.empty() ? "" : ", ") + origin;
    }
  }
  throw Error({.code = ExitCode::kUsage,
               .what = found.size() == 1
                           ? "the recipe asks for the impossible"
                           : fmt::format("the recipe asks for {} impossible things", found.size()),
               .expected = "",
               .found = reasons,
               .where = where,
               .hint = hints});
}

}  // namespace

std::vector<Problem> problems(const ModelConfig& model) {
  Problems out;
  check_mixers(model, out);
  check_adapters(model, out);
  parameter_limit(model, out);
  positions(model, out);
  check_family(model, out);
  return out;
}

std::vector<Problem> problems(const Recipe& recipe) {
  Problems out = problems(recipe.model);
  training(recipe, out);
  check_spikes(recipe, out);
  distillation(recipe, out);
  shares(recipe.parallel, out);
  padding(recipe, out);
  elastic(recipe, out);
  narrow_states(recipe, out);
  outer(recipe, out);
  width(recipe, out);
  data(recipe, out);
  objective(recipe, out);
  grid(recipe, out);
  recall(recipe, out);
  check_batches(recipe, out);
  return out;
}

void check(const LoadedRecipe& loaded) { refuse_all(problems(loaded.recipe), &loaded); }
void check(const Recipe& recipe) { refuse_all(problems(recipe), nullptr); }

}  // namespace longhaul::recipe
