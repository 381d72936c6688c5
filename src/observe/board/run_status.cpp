#include "observe/board/run_status.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/text/json.h"
#include "observe/events/event.h"

namespace longhaul::observe {

constexpr auto CollectiveStatus::fields() {
  using T = CollectiveStatus;
  return std::tuple{Field{"group", &T::group}, Field{"name", &T::name}, Field{"kind", &T::kind},
                    Field{"sequence", &T::sequence}, Field{"state", &T::state}};
}
constexpr auto RankStatus::fields() {
  using T = RankStatus;
  return std::tuple{Field{"rank", &T::rank},
                    Field{"node", &T::node},
                    Field{"pid", &T::pid},
                    Field{"state", &T::state},
                    Field{"generation", &T::generation},
                    Field{"step", &T::step},
                    Field{"micro_step", &T::micro_step},
                    Field{"phase", &T::phase},
                    Field{"phase_age_s", &T::phase_age_s},
                    Field{"task_phase", &T::task_phase},
                    Field{"beat_age_s", &T::beat_age_s},
                    Field{"progress_age_s", &T::progress_age_s},
                    Field{"collective", &T::collective},
                    Field{"loss", &T::loss},
                    Field{"gradient_norm", &T::gradient_norm},
                    Field{"tokens", &T::tokens},
                    Field{"resident_bytes", &T::resident_bytes},
                    Field{"device_bytes", &T::device_bytes},
                    Field{"step_seconds", &T::step_seconds},
                    Field{"phase_seconds", &T::phase_seconds}};
}
constexpr auto NodeStatus::fields() {
  using T = NodeStatus;
  return std::tuple{Field{"node", &T::node},
                    Field{"host", &T::host},
                    Field{"pid", &T::pid},
                    Field{"state", &T::state},
                    Field{"last_beat_age_s", &T::last_beat_age_s},
                    Field{"reason", &T::reason},
                    Field{"machine", &T::machine}};
}
constexpr auto Incident::fields() {
  using T = Incident;
  return std::tuple{Field{"id", &T::id},
                    Field{"wall_time", &T::wall_time},
                    Field{"class", &T::fault},
                    Field{"rank", &T::rank},
                    Field{"node", &T::node},
                    Field{"evidence", &T::evidence},
                    Field{"suspects", &T::suspects},
                    Field{"action", &T::action},
                    Field{"generation", &T::ended_generation},
                    Field{"step", &T::step},
                    Field{"lost_steps", &T::lost_steps},
                    Field{"open", &T::open},
                    Field{"recovered", &T::recovered},
                    Field{"detected_milliseconds", &T::detected_milliseconds},
                    Field{"overdue_milliseconds", &T::overdue_milliseconds},
                    Field{"diagnosed_milliseconds", &T::diagnosed_milliseconds},
                    Field{"recovered_milliseconds", &T::recovered_milliseconds}};
}
constexpr auto MeshAxis::fields() {
  using T = MeshAxis;
  return std::tuple{Field{"name", &T::name}, Field{"size", &T::size}};
}
constexpr auto RunStatus::Driver::fields() {
  using T = RunStatus::Driver;
  return std::tuple{Field{"pid", &T::pid}, Field{"host", &T::host}, Field{"address", &T::address}};
}
constexpr auto RunStatus::fields() {
  using T = RunStatus;
  return std::tuple{Field{"run", &T::run},
                    Field{"recipe", &T::recipe},
                    Field{"state", &T::state},
                    Field{"generation", &T::generation},
                    Field{"step", &T::step},
                    Field{"steps", &T::steps},
                    Field{"updated_wall_time", &T::updated_wall_time},
                    Field{"driver", &T::driver},
                    Field{"started_wall_time", &T::started_wall_time},
                    Field{"restarts", &T::restarts},
                    Field{"productive_seconds", &T::productive_seconds},
                    Field{"lost_seconds", &T::lost_seconds},
                    Field{"effective_ratio", &T::effective_ratio},
                    Field{"effective_ratio_hour", &T::effective_ratio_hour},
                    Field{"mesh", &T::mesh},
                    Field{"nodes", &T::nodes},
                    Field{"ranks", &T::ranks},
                    Field{"incidents", &T::incidents}};
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr JsonRules kStatusRules{.what = "cannot read the status of a run",
                                 .hint = "its driver writes a new one each second"};

void read_value(const json& value, std::string& into) {
  if (value.is_string()) into = value.get<std::string>();
}
void read_value(const json& value, int64_t& into) {
  if (value.is_number_integer()) into = value.get<int64_t>();
  if (value.is_number_float() && std::abs(value.get<double>()) < 9e18)
    into = static_cast<int64_t>(value.get<double>());
}
void read_value(const json& value, bool& into) {
  if (value.is_boolean()) into = value.get<bool>();
}
void read_value(const json& value, double& into) {
  if (value.is_number()) into = value.get<double>();
}
void read_value(const json& value, std::optional<double>& into) {
  if (value.is_number()) into = value.get<double>();
}
void read_value(const json& value, std::optional<int64_t>& into) {
  if (value.is_number()) read_value(value, into.emplace());
}
void read_value(const json& value, std::map<std::string, double>& into) {
  if (!value.is_object()) return;
  for (const auto& [name, number] : value.items()) {
    if (number.is_number()) into[name] = number.get<double>();
  }
}
// One text or a list, of texts or of anything else, which is then shown as JSON.
void read_value(const json& value, std::vector<std::string>& into) {
  const auto text = [](const json& each) { return each.is_string() ? each.get<std::string>() : each.dump(); };
  if (value.is_array()) {
    for (const json& each : value) into.push_back(text(each));
  } else if (!value.is_null() && !(value.is_string() && value.get<std::string>().empty())) {
    into.push_back(text(value));
  }
}

template <class T>
concept HasStatusFields = requires {
  T::fields();
};

template <class T>
void read_value(const json& list, std::vector<T>& into);

template <HasStatusFields T>
void read_value(const json& object, T& into) {
  if (!object.is_object()) return;
  for_each_field<T>([&](const auto& field) {
    const auto found = object.find(std::string(field.name));
    if (found != object.end()) read_value(*found, into.*field.member);
  });
}
template <class T>
void read_value(const json& list, std::vector<T>& into) {
  if (!list.is_array()) return;
  for (const json& each : list) read_value(each, into.emplace_back());
}

template <class T>
ordered_json json_value(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json();
  } else if constexpr (requires { value.has_value(); }) {
    return value ? json_value(*value) : ordered_json();
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, int64_t> ||
                       std::is_same_v<T, bool> || std::is_same_v<T, std::vector<std::string>>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::map<std::string, double>>) {
    ordered_json object = ordered_json::object();
    for (const auto& [name, number] : value) object[name] = json_value(number);
    return object;
  } else if constexpr (requires { value.begin(); }) {
    ordered_json list = ordered_json::array();
    for (const auto& each : value) list.push_back(json_value(each));
    return list;
  } else {
    ordered_json object = ordered_json::object();
    for_each_field<T>(
        [&](const auto& field) { object[std::string(field.name)] = json_value(value.*field.member); });
    return object;
  }
}

}  // namespace

int64_t RunStatus::size_of(std::string_view axis) const {
  const auto found = std::ranges::find(mesh, axis, &MeshAxis::name);
  return found == mesh.end() ? 1 : std::max<int64_t>(1, found->size);
}

int64_t RunStatus::stage_of(int64_t rank) const {
  return stage_of_rank(rank, std::ssize(ranks), size_of("workers"), size_of("pp"));
}

int64_t stage_of_rank(int64_t rank, int64_t ranks, int64_t workers, int64_t stages) {
  if (rank < 0 || ranks == 0 || ranks % (workers * stages) != 0) return 0;
  const int64_t island = ranks / workers;
  return rank % island / (island / stages);
}

std::filesystem::path status_file(const std::filesystem::path& run) {
  return run / "control" / "status.json";
}

RunStatus status_from_json(std::string_view text, const std::string& where) {
  const json object = parse_json(text, where, kStatusRules);
  JsonView(object, where, kStatusRules).require(object.is_object(), "one JSON object");
  RunStatus status;
  read_value(object, status);
  return status;
}

std::string to_json(const RunStatus& status) {
  return json_value(status).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Incident incident_from_json(const json& object) {
  Incident incident;
  read_value(object, incident);
  // In the event stream "generation" is the writer's.
  if (object.is_object() && object.contains("ended_generation"))
    read_value(object["ended_generation"], incident.ended_generation);
  return incident;
}

ordered_json incident_json(const Incident& incident) { return json_value(incident); }

}  // namespace longhaul::observe
