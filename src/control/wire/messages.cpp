#include "control/wire/messages.h"

#include <fmt/format.h>

#include "base/text/text.h"
#include "control/wire/record.h"

namespace longhaul::control {
namespace {

constexpr JsonRules kMessageRules{.code = ExitCode::kCommunication,
                                  .what = "cannot read a message of the control plane",
                                  .hint = "run the same version everywhere"};

template <class T>
constexpr std::string_view kType = "";
template <>
constexpr std::string_view kType<NodeHello> = "node_hello";
template <>
constexpr std::string_view kType<NodeBeat> = "node_beat";
template <>
constexpr std::string_view kType<RankExited> = "rank_exited";
template <>
constexpr std::string_view kType<HealthReport> = "health_report";
template <>
constexpr std::string_view kType<CheckResults> = "check_results";
template <>
constexpr std::string_view kType<Evidence> = "evidence";
template <>
constexpr std::string_view kType<Welcome> = "welcome";
template <>
constexpr std::string_view kType<StartRanks> = "start_ranks";
template <>
constexpr std::string_view kType<StopRanks> = "stop_ranks";
template <>
constexpr std::string_view kType<RunChecks> = "run_checks";
template <>
constexpr std::string_view kType<GatherEvidence> = "gather_evidence";
template <>
constexpr std::string_view kType<Release> = "release";
template <>
constexpr std::string_view kType<StillHere> = "still_here";
template <>
constexpr std::string_view kType<RenewKeys> = "renew_keys";
template <>
constexpr std::string_view kType<KeysRenewed> = "keys_renewed";
template <>
constexpr std::string_view kType<StatusRequest> = "status_request";
template <>
constexpr std::string_view kType<EvictRequest> = "evict_request";
template <>
constexpr std::string_view kType<DrainRequest> = "drain_request";

template <class Variant>
std::string_view type_of_variant(const Variant& message) {
  return std::visit([](const auto& body) { return kType<std::remove_cvref_t<decltype(body)>>; }, message);
}

// Log lines of ranks hold any bytes: those that are not UTF-8 become U+FFFD.
template <class Variant>
std::string text_of_variant(const Variant& message) {
  nlohmann::json json = std::visit([](const auto& body) { return record_to_json(body); }, message);
  json["type"] = std::string(type_of_variant(message));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Variant>
Variant variant_of_text(std::string_view text, const std::string& where) {
  nlohmann::json json = parse_json(text, where, kMessageRules);
  JsonView(json, where + ":", kMessageRules).require(json.is_object(), "an object");
  const std::string type = JsonView(json, where + ":", kMessageRules).at("type").string();
  json.erase("type");
  const JsonView view(json, where + ":" + brief(printable(type), 40), kMessageRules);
  Variant message;
  bool found = false;
  const auto try_type = [&]<class T>() {
    if (found || kType<T> != type) return;
    found = true;
    T body;
    read_record(view, body);
    message = std::move(body);
  };
  [&]<size_t... i>(std::index_sequence<i...>) {
    (try_type.template operator()<std::variant_alternative_t<i, Variant>>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>{});
  view.require(found, "a message that this side takes");
  return message;
}

}  // namespace

std::string_view type_of(const NodeMessage& message) { return type_of_variant(message); }
std::string_view type_of(const DriverMessage& message) { return type_of_variant(message); }
std::string_view type_of(const ClientMessage& message) { return type_of_variant(message); }

std::string to_text(const NodeMessage& message) { return text_of_variant(message); }
std::string to_text(const DriverMessage& message) { return text_of_variant(message); }
std::string to_text(const ClientMessage& message) { return text_of_variant(message); }
std::string to_text(const Answer& answer) {
  return record_to_json(answer).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

NodeMessage node_message(std::string_view text, const std::string& where) {
  return variant_of_text<NodeMessage>(text, where);
}
DriverMessage driver_message(std::string_view text, const std::string& where) {
  return variant_of_text<DriverMessage>(text, where);
}
ClientMessage client_message(std::string_view text, const std::string& where) {
  return variant_of_text<ClientMessage>(text, where);
}
Answer answer_from_text(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where, kMessageRules);
  Answer answer;
  read_record(JsonView(json, where + ":answer", kMessageRules), answer);
  return answer;
}

}  // namespace longhaul::control
