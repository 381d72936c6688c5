#include "comm/gloo/gloo.h"

#include <exception>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "comm/gloo/gloo_group.h"

namespace longhaul::comm {
namespace {

[[noreturn]] void throw_failure_of(const GlooWorld& world, int64_t rank, const std::string& group,
                                   const std::string& call) {
  const std::optional<Failure> failure = world.failure();
  LONGHAUL_ASSERT(failure, "{} ended badly and nobody says why", call);
  ErrorFields fields = failure->fields;
  fields.where = fmt::format("rank {} of '{}', {}", rank, group, call);
  if (failure->aborted) throw Aborted(std::move(fields));
  throw Error(std::move(fields));
}

// It may outlive the communicator.
class GlooWork final : public Work::State {
 public:
  GlooWork(const GlooGroup& group, std::shared_ptr<GlooCall> call)
      : world_(group.world()), name_(group.name()), rank_(group.rank()), call_(std::move(call)) {}
  void wait() override {
    if (!call_->wait()) throw_failure_of(*world_, rank_, name_, call_->label);
  }
  bool done() override { return call_->done(); }
  int64_t ended_ns() override { return call_->ended_ns(); }

 private:
  std::shared_ptr<GlooWorld> world_;
  std::string name_;
  int64_t rank_;
  std::shared_ptr<GlooCall> call_;
};

}  // namespace

void GlooCall::finish_one(bool well) {
  const std::lock_guard lock(mutex);
  failed |= !well;
  if (--unfinished > 0) return;
  ended = monotonic_ns();
  if (call.kind != CallKind::kSplit) {  // lets go of the tensors, and of what is under way after a failure
    saying.clear();
    hearing.clear();
    call = {};
  }
  changed.notify_all();
}

bool GlooCall::done() {
  const std::lock_guard lock(mutex);
  return unfinished == 0;
}

int64_t GlooCall::ended_ns() {
  const std::lock_guard lock(mutex);
  return ended;
}

bool GlooCall::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return unfinished == 0; });
  return !failed;
}

void GlooGroup::throw_failure(const std::string& call) const {
  throw_failure_of(*world_, rank_, name_, call);
}

std::unique_ptr<Communicator> Gloo::make(const std::shared_ptr<GlooWorld>& world, int64_t size,
                                         const std::string& name) {
  std::vector<int64_t> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<Gloo>(std::make_unique<GlooGroup>(world, name, 0, ranks, world->rank()));
}

Gloo::Gloo(std::unique_ptr<GlooGroup> group)
    : Communicator(group->name(), group->rank(), group->size()), group_(std::move(group)) {}
Gloo::~Gloo() = default;

void Gloo::abort(const std::string& reason) { group_->abort(reason); }

void Gloo::require_well() {
  if (group_->world()->failure()) group_->throw_failure("what has been computed");
}

Communicator::Tell Gloo::aborter() {
  return [world = std::weak_ptr(group_->world()), rank = rank(), name = name()](const std::string& reason) {
    if (const auto there = world.lock()) there->fail(aborted_by(rank, name, reason));
  };
}

void Gloo::on_failure(Tell tell) {
  group_->world()->on_failure([tell = std::move(tell)](const Failure& failure) {
    tell(failure.fields.found.empty() ? failure.fields.what
                                      : fmt::format("{}: {}", failure.fields.what, failure.fields.found));
  });
}

Work Gloo::start(Call call) {
  check_on_cpu(call, rank(), name());
  return Work(std::make_shared<GlooWork>(*group_, group_->start(std::move(call))));
}

std::vector<std::unique_ptr<Communicator>> Gloo::start_split(Call call) {
  const std::shared_ptr<GlooCall> split = group_->start(std::move(call));
  if (!split->wait()) group_->throw_failure(split->label);
  std::vector<std::unique_ptr<Communicator>> mine;
  for (std::unique_ptr<GlooGroup>& group : group_->groups_of(*split)) {
    mine.push_back(group ? std::make_unique<Gloo>(std::move(group)) : nullptr);
  }
  return mine;
}

}  // namespace longhaul::comm
