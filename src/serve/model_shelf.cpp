#include "serve/model_shelf.h"

#include <algorithm>

#include "base/error.h"
#include "openai/api_error.h"

namespace longhaul::serve {

ModelShelf::ModelShelf(std::vector<Entry> entries, Open open)
    : entries_(std::move(entries)), open_(std::move(open)) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (entries_[i].name != entries_[k].name) continue;
      throw Error({.code = ExitCode::kUsage,
                   .what = "two models have one name",
                   .expected = "a name of its own for each",
                   .found = entries_[i].name,
                   .where = entries_[i].path.string(),
                   .hint = "name one of them: NAME=" + entries_[i].path.string()});
    }
  }
}

bool ModelShelf::has(const std::string& name) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.name == name; });
}

const ModelShelf::Entry& ModelShelf::entry_of(const std::string& name) const {
  const auto entry = std::ranges::find(entries_, name, &Entry::name);
  LONGHAUL_ASSERT(entry != entries_.end(), "no model {}", name);
  return *entry;
}

std::vector<ModelShelf::Entry> ModelShelf::adapters_of(const std::string& base) const {
  std::vector<Entry> adapters;
  std::ranges::copy_if(entries_, std::back_inserter(adapters),
                       [&](const Entry& entry) { return entry.base == base; });
  return adapters;
}

int64_t ModelShelf::adapter_number(const std::string& name) const {
  const Entry& entry = entry_of(name);
  if (entry.base.empty()) return 0;
  const std::vector<Entry> all = adapters_of(entry.base);
  return std::ranges::find(all, name, &Entry::name) - all.begin() + 1;
}

std::shared_ptr<const ModelText> ModelShelf::text(const std::string& name, const std::function<void()>& ask) {
  std::unique_lock hold(mutex_);
  if (const auto found = texts_.find(name); found != texts_.end()) return found->second;
  const int64_t before = tries_[name];
  hold.unlock();
  ask();
  hold.lock();
  opened_.wait(hold, [&] { return given_up_ || texts_.contains(name) || tries_[name] > before; });
  if (const auto found = texts_.find(name); found != texts_.end()) return found->second;
  if (given_up_) throw openai::ApiError(503, "The server ends.").retry_after(5);
  std::rethrow_exception(errors_.at(name));
}

LoadedModel* ModelShelf::open(const std::string& asked) {
  const std::string& base = entry_of(asked).base;
  const std::string& name = base.empty() ? asked : base;
  if (const auto found = loaded_.find(name); found != loaded_.end()) return &found->second;
  LoadedModel* made = nullptr;
  std::exception_ptr error;
  try {
    made = &loaded_.emplace(name, open_(entry_of(name))).first->second;
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard hold(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.name != name && entry.base != name) continue;
      ++tries_[entry.name];
      if (made != nullptr) {
        texts_[entry.name] = made->text;
      } else {
        errors_[entry.name] = error;
      }
    }
  }
  opened_.notify_all();
  if (made == nullptr) std::rethrow_exception(error);
  return made;
}

LoadedModel* ModelShelf::open_anew(const std::string& name) {
  loaded_.erase(name);
  return open(name);
}

void ModelShelf::give_up() {
  {
    const std::lock_guard hold(mutex_);
    given_up_ = true;
  }
  opened_.notify_all();
}

}  // namespace longhaul::serve
