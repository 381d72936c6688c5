#include "checkpoint/starting_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "checkpoint/disk/new_folder.h"
#include "checkpoint/disk/verify_together.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/published/published_model.h"
#include "checkpoint/published/published_tokens.h"
#include "checkpoint/published/upcycling.h"
#include "checkpoint/saved_recipe.h"
#include "layout/adapters.h"
#include "layout/parameters.h"
#include "recipe/architecture/conversion.h"
#include "storage/catalog.h"
#include "storage/lease.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

// A tokenizer that is not read here says so where the run opens it: the recipe may name another one.
data::TokenRoles roles_beside(const fs::path& folder) {
  std::optional<data::Tokenizer> tokenizer;
  try {
    tokenizer = data::Tokenizer::load(folder / "tokenizer.json");
  } catch (const Error&) {
    return {};
  }
  return published_roles(folder, *tokenizer);
}

class FromPublished final : public StartingPoint {
 public:
  explicit FromPublished(const fs::path& path)
      : published_(PublishedModel::open(storage::local_file_system(), path)) {
    path_ = home_ = beside_ = path;
    model_ = published_.config();
    if (fs::exists(path / "tokenizer.json")) {
      tokenizer_ = path / "tokenizer.json";
      roles_ = roles_beside(path);
    }
    origin_ = {{"imported_family", published_.family().name},
               {"imported_layout", published_.layout()},
               {"started_from", path.string()}};
  }

 private:
  Tensor read(const std::string& logical, const layout::Rectangle& box) const override {
    Tensor all = published_.read(logical);
    for (size_t d = 0; d < box.offset.size(); ++d)
      all = all.narrow(static_cast<int64_t>(d), box.offset[d], box.length[d]);
    return all;
  }
  PublishedModel published_;
};

class FromCheckpoint final : public StartingPoint {
 public:
  explicit FromCheckpoint(const fs::path& path)
      : leased_(
            storage::open_leased(storage::local_file_system(), path, storage::Depth::kSizes, kWeightRole)) {
    path_ = path;
    const recipe::Recipe saved = saved_recipe(checkpoint_).recipe;
    model_ = saved.model;
    roles_ = {saved.data.end_of_document, saved.data.stop_tokens};
    const fs::path run = fs::weakly_canonical(checkpoint_.folder()).parent_path().parent_path();
    home_ = run;
    beside_ = run / kPublishedBeside;
    if (fs::exists(run / "tokenizer.json")) tokenizer_ = run / "tokenizer.json";
    const auto& environment = checkpoint_.manifest().environment;
    for (const char* key : kOriginKeys) {
      if (environment.is_object() && environment.contains(key)) origin_[key] = environment[key];
    }
    origin_["started_from"] = checkpoint_.folder().string();
  }

  void verify(const Writers& together) const override {
    const fs::path folder = checkpoint_.folder().parent_path();
    const std::string damage = damage_of(storage::local_file_system(), folder,
                                         checkpoint_.folder().filename().string(), together, kWeightRole);
    if (damage.empty()) return;
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the checkpoint that the run was to begin with is damaged",
                 .found = damage,
                 .where = fmt::format("--from {}", path_.string()),
                 .hint = program_command("checkpoint verify RUN") + " says which of a run are whole"});
  }

  void finish_reading() const override { leased_.lease.release(); }

 private:
  Tensor read(const std::string& logical, const layout::Rectangle& box) const override {
    const Tensor out = at::empty(box.length, scalar_type(checkpoint_.at(logical).dtype, logical));
    checkpoint_.read(logical, box,
                     {static_cast<std::byte*>(out.mutable_data_ptr()), static_cast<size_t>(out.nbytes())});
    return out;
  }
  mutable storage::Leased leased_;
  const storage::Checkpoint& checkpoint_ = leased_.checkpoint;
};

// tokenizer: as a recipe says it; empty: nothing is said of it, nor of the roles of its tokens.
recipe::FirstWords words_of(const recipe::ModelConfig& model, const std::string& tokenizer,
                            const data::TokenRoles& roles, const std::string& origin) {
  recipe::FirstWords words{.origin = origin};
  words.recipe.model = model;
  words.recipe.model.preset.clear();
  if (!tokenizer.empty()) words.recipe.data.tokenizer = tokenizer;
  words.recipe.data.end_of_document = roles.end_of_document;
  words.recipe.data.stop_tokens = roles.stop;
  const recipe::OptionSet options = recipe::options_of(words.recipe);
  for (const recipe::Option& option : options.all()) {
    const bool of_tokenizer = option.name == "data.tokenizer" ||
                              (option.name == "data.end_of_document" && !roles.end_of_document.empty()) ||
                              (option.name == "data.stop_tokens" && !roles.stop.empty());
    if ((of_tokenizer && !tokenizer.empty()) ||
        (option.section() == "model" && option.name != "model.preset"))
      words.keys.push_back(option.name);
  }
  return words;
}

// The conversion decides what the layers are: a recipe that says so too would win in silence.
void require_converted_layers(const recipe::ModelConfig& converted, const recipe::LoadedRecipe& loaded) {
  const recipe::ModelConfig& model = loaded.recipe.model;
  const char* key = model.mixers != converted.mixers ? "model.mixers" : "model.softmax.windows";
  if (model.mixers == converted.mixers && model.softmax.windows == converted.softmax.windows) return;
  recipe::Recipe wanted;
  wanted.model = converted;
  throw Error({.code = ExitCode::kUsage,
               .what = "both the recipe and the conversion say what the layers are",
               .expected = fmt::format("{} = {}, as the conversion has it", key,
                                       recipe::options_of(wanted).find(key)->get().toml()),
               .found = fmt::format("another value ({})", loaded.origin(key).text()),
               .where = fmt::format("{} and --convert", key),
               .hint = fmt::format("leave {} out of the recipe, or begin with recipes/train-on.toml", key)});
}

}  // namespace

std::optional<recipe::FirstWords> words_of_run(const fs::path& run_folder) {
  const auto found = storage::list_checkpoints(storage::local_file_system(), run_folder / "checkpoints");
  // A damaged one says nothing; those before it have the same words.
  const auto usable = std::ranges::find_if(found, [](const auto& each) { return each.usable(); });
  if (usable == found.end()) return std::nullopt;
  const auto newest = storage::Checkpoint::open_unchecked(storage::local_file_system(), usable->path);
  const recipe::LoadedRecipe saved = saved_recipe(newest);
  const fs::path tokenizer = run_folder / "tokenizer.json";
  const bool own = fs::exists(tokenizer) && saved.recipe.data.tokenizer != "train" &&
                   saved.recipe.data.tokenizer != "bytes";
  return words_of(saved.recipe.model, own ? tokenizer.string() : saved.recipe.data.tokenizer,
                  {saved.recipe.data.end_of_document, saved.recipe.data.stop_tokens}, usable->path.string());
}

std::shared_ptr<const StartingPoint> StartingPoint::open(const fs::path& path, const std::string& rules) {
  std::shared_ptr<StartingPoint> point;
  if (fs::exists(path / "config.json")) {
    point = std::make_shared<FromPublished>(path);
  } else {
    point = std::make_shared<FromCheckpoint>(path);
  }
  for (const auto& spec : layout::parameters(point->model_))
    point->shapes_.emplace(spec.tensor.name, spec.tensor.global_shape);
  if (rules.empty()) return point;
  const recipe::Conversion conversion = recipe::read_conversion(rules);
  point->converted_ = recipe::converted(point->model_, conversion);
  // Its new tensors have no place in the files of the family that it came from.
  point->origin_.erase("imported_family");
  point->origin_.erase("imported_layout");
  point->origin_["converted"] = conversion.text;
  return point;
}

recipe::FirstWords StartingPoint::first_words() const {
  return words_of(converted_.value_or(model_), tokenizer_.string(), roles_, path_.string());
}

// What predicts further ahead may begin here: files of published models have none.
std::string StartingPoint::require_fitting(const recipe::LoadedRecipe& loaded) const {
  require_fitting_adapters(loaded.recipe.model.lora);
  if (converted_) {
    require_converted_layers(*converted_, loaded);
    const ConversionWeights weights(model_, loaded.recipe.model);
    require_same_tensors(loaded, weights.without_conversion());
    weights.require_fitting(path_.string());
    return weights.text();
  }
  const auto upcycling = Upcycling::of(model_, loaded, path_.string());
  recipe::ModelConfig compared = upcycling ? upcycling->without_experts() : loaded.recipe.model;
  const bool grows = !upcycling && grows_vocabulary(loaded.recipe.model);
  if (grows) compared.vocabulary = model_.vocabulary;
  require_same_tensors(loaded, compared);
  if (!grows) return upcycling ? upcycling->text() : "";
  return fmt::format(
      "the vocabulary grows from {} to {} rows: each new one begins with the mean of the {} that are trained",
      count_text(model_.vocabulary), count_text(loaded.recipe.model.vocabulary),
      count_text(model_.vocabulary));
}

bool StartingPoint::grows_vocabulary(const recipe::ModelConfig& model) const {
  return !converted_ && model.vocabulary > model_.vocabulary;
}

// Adapters that are not there begin as they are drawn; those that are there go on, or would be lost.
void StartingPoint::require_fitting_adapters(const recipe::AdapterOptions& lora) const {
  if (!model_.lora.wanted() || model_.lora == lora) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "the weights to begin with have adapters that the run would not go on with",
       .expected = fmt::format("[lora] as it is there: rank {}, alpha {}, kind {}, targets {}",
                               model_.lora.rank, model_.lora.alpha,
                               recipe::names_of(model_.lora.kind)[static_cast<size_t>(model_.lora.kind)],
                               fmt::join(model_.lora.targets, ", ")),
       .found = lora.wanted() ? "another [lora]" : "no [lora]",
       .where = fmt::format("--from {}", path_.string()),
       .hint =
           program_command(fmt::format("checkpoint merge {} DIR", path_.string())) + ", then --from DIR"});
}

void StartingPoint::require_same_tensors(const recipe::LoadedRecipe& loaded,
                                         const recipe::ModelConfig& model) const {
  recipe::Recipe theirs, ours = loaded.recipe;
  ours.model = model;
  if (model_.predict_ahead == 0)
    ours.model.predict_ahead = 0, ours.model.predict_ahead_weight = model_.predict_ahead_weight;
  ours.model.lora = model_.lora;  // adapters of its own begin anew
  theirs.model = model_;
  std::string differing;
  const recipe::OptionSet of_theirs = recipe::options_of(theirs), of_ours = recipe::options_of(ours);
  for (size_t i = 0; i < of_theirs.all().size(); ++i) {
    const recipe::Option &a = of_theirs.all()[i], &b = of_ours.all()[i];
    if (a.section() != "model" || a.name == "model.preset" || a.get() == b.get()) continue;
    differing += fmt::format("{}{} = {} there, {} here ({})", differing.empty() ? "" : "\n  ", a.name,
                             a.get().toml(), b.get().toml(), loaded.origin(a.name).text());
  }
  if (differing.empty()) return;
  const auto tensors_of_model = [](const recipe::ModelConfig& of) {
    std::vector<std::pair<std::string, layout::Shape>> list;
    for (const auto& spec : layout::parameters(of))
      list.emplace_back(spec.tensor.name, spec.tensor.global_shape);
    return list;
  };
  if (tensors_of_model(model_) == tensors_of_model(ours.model)) {
    log_warning("the weights of {} begin a model that computes something else with them:\n  {}",
                path_.string(), differing);
    return;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "the recipe's model is not the one whose weights it is to begin with",
               .expected = "the same tensors",
               .found = differing,
               .where = fmt::format("--from {}", path_.string()),
               .hint = "leave [model] out of the recipe: it is taken from there"});
}

void StartingPoint::read(const std::vector<StateEntry>& state, const recipe::LoadedRecipe& recipe) const {
  std::optional<ConversionWeights> conversion;
  if (converted_) conversion.emplace(model_, recipe.recipe.model);
  const auto upcycling = conversion ? std::nullopt : Upcycling::of(model_, recipe, path_.string());
  for (const StateEntry& entry : state) {
    if (entry.role != kWeightRole || entry.held.empty()) continue;
    if (model_.predict_ahead == 0 && entry.name.starts_with(kAheadPrefix)) continue;  // as it was drawn
    if (!model_.lora.wanted() && layout::is_adapter_name(entry.name)) continue;       // likewise
    if (conversion) {
      read_converted(entry, *conversion);
      continue;
    }
    const Tensor view = entry.view;
    if (!upcycling && grows_vocabulary(recipe.recipe.model) && entry.shape != shapes_.at(entry.name)) {
      read_growing(entry);
      continue;
    }
    if (!upcycling) {
      view.copy_(read(entry.name, entry.held));
      continue;
    }
    if (const auto router = upcycling->router_of(entry)) {
      if (router->defined()) view.copy_(*router);
      continue;
    }
    const Upcycling::Source source = upcycling->source_of(entry);
    const Tensor weights = read_copies(source);
    view.copy_(source.factor == 1 ? weights : weights.to(at::kDouble).mul(source.factor));
  }
}

void StartingPoint::read_growing(const StateEntry& entry) const {
  const layout::Shape& there = shapes_.at(entry.name);
  LONGHAUL_ASSERT(there.size() == entry.shape.size() && there[0] < entry.shape[0],
                  "{} is no table of the vocabulary", entry.name);
  const Tensor trained = read(entry.name, layout::Rectangle::whole(there));
  const int64_t first = entry.held.offset[0], rows = entry.held.length[0],
                old = std::clamp<int64_t>(there[0] - first, 0, rows);
  // The part of a table that this rank holds, but for its rows.
  const auto held = [&](Tensor table) {
    for (size_t d = 1; d < there.size(); ++d)
      table = table.narrow(static_cast<int64_t>(d), entry.held.offset[d], entry.held.length[d]);
    return table;
  };
  const Tensor view = entry.view;
  if (old > 0) view.narrow(0, 0, old).copy_(held(trained).narrow(0, first, old));
  if (old == rows) return;
  const Tensor fresh = view.narrow(0, old, rows - old);
  fresh.copy_(held(trained.to(at::kDouble).mean(0, /*keepdim=*/true)).expand(fresh.sizes()));
}

Tensor StartingPoint::read_copies(const Upcycling::Source& source) const {
  if (source.copies == 1) return read(source.name, source.box);
  const auto dimension = static_cast<int64_t>(source.copied_dimension);
  const Tensor one = read(source.name, layout::Rectangle::whole(shapes_.at(source.name)));
  Tensor box = at::cat(std::vector<Tensor>(static_cast<size_t>(source.copies), one), dimension);
  for (size_t d = 0; d < source.box.offset.size(); ++d)
    box = box.narrow(static_cast<int64_t>(d), source.box.offset[d], source.box.length[d]);
  return box;
}

// Where heads are copied, the box of a rank may hold parts of several of them: the tensor is read whole then.
void StartingPoint::read_converted(const StateEntry& entry, const ConversionWeights& weights) const {
  const Tensor view = entry.view;
  const auto source = weights.source_of(entry.name);
  if (!source) {
    if (const Tensor first = ConversionWeights::first_value_of(entry); first.defined()) view.copy_(first);
    return;
  }
  const bool whole = source->repeats > 1;
  const Tensor there =
      read(source->name, whole ? layout::Rectangle::whole(shapes_.at(source->name)) : entry.held);
  const layout::Rectangle box = whole ? entry.held : layout::Rectangle::whole(entry.held.length);
  view.copy_(ConversionWeights::box_of(there, *source, box));
}

}  // namespace longhaul::checkpoint
