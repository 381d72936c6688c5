#include "control/authentication.h"

#include "base/json.h"
#include "base/secret.h"
#include "base/text.h"
#include "base/version.h"

namespace longhaul::control {
namespace {

constexpr int64_t kProtocol = 1;
constexpr size_t kChallengeBytes = 32;
constexpr JsonRules kHandshakeRules{
    .code = ExitCode::kCommunication, .what = "a greeting that cannot be read", .depth = 2, .string_bytes = 512};

std::string challenge_of(const std::string& text) {
  std::string bytes = from_hex(text);
  if (bytes.size() != kChallengeBytes)
    throw Error({.code = ExitCode::kCommunication, .what = "a greeting that cannot be read", .expected = "a challenge of 32 bytes"});
  return bytes;
}

void append_part(std::string& all, std::string_view part) {
  for (int shift = 0; shift < 64; shift += 8) all.push_back(static_cast<char>(uint64_t{part.size()} >> shift));
  all.append(part);
}

}  // namespace

Identity own_identity(std::string role, std::string name, std::string job, uint64_t generation) {
  return {.role = std::move(role),
          .name = std::move(name),
          .job = std::move(job),
          .generation = generation,
          .version = fmt::format("{} ({})", build_version().version, build_version().commit)};
}

std::string Seal::code(std::string_view message) const {
  std::string numbered;
  for (int shift = 0; shift < 64; shift += 8) numbered.push_back(static_cast<char>(number_ >> shift));
  return hmac_sha256(key_, numbered.append(message));
}

std::string Seal::close(std::string_view message) {
  std::string sealed = std::string(message) + code(message);
  ++number_;
  return sealed;
}

std::optional<std::string> Seal::open(std::string_view sealed) {
  constexpr size_t kCodeBytes = 32;
  if (sealed.size() < kCodeBytes) return std::nullopt;
  const std::string_view message = sealed.substr(0, sealed.size() - kCodeBytes);
  if (!equal_in_constant_time(code(message), sealed.substr(message.size()))) return std::nullopt;
  ++number_;
  return std::string(message);
}

void Seal::renew(std::string_view label) { key_ = hmac_sha256(key_, fmt::format("renewed: {}", label)); }

Handshake::Handshake(std::string secret, Identity self, bool listens)
    : secret_(std::move(secret)), self_(std::move(self)), listens_(listens) {
  (listens_ ? driver_challenge_ : peer_challenge_) = random_bytes(kChallengeBytes);
}

// Everything that both sides have said, each part with its length in front.
std::string Handshake::transcript(std::string_view purpose) const {
  const Identity& driver = listens_ ? self_ : peer_;
  const Identity& peer = listens_ ? peer_ : self_;
  std::string all;
  append_part(all, purpose);
  append_part(all, driver_challenge_);
  append_part(all, peer_challenge_);
  for (const Identity* who : {&driver, &peer}) {
    for (const std::string& part : {who->role, who->name, who->job, std::to_string(who->generation), who->version}) append_part(all, part);
  }
  return all;
}

std::string Handshake::prove(std::string_view who) const {
  return to_hex(hmac_sha256(secret_, transcript(fmt::format("proof of {}", who))));
}
std::string Handshake::key(std::string_view direction) const {
  return hmac_sha256(secret_, transcript(fmt::format("key of {}", direction)));
}

std::string Handshake::opening() {
  if (!listens_) return "";
  const nlohmann::json greeting = {{"protocol", kProtocol},          {"version", self_.version}, {"job", self_.job},
                                   {"generation", self_.generation}, {"role", self_.role},       {"challenge", to_hex(driver_challenge_)}};
  return greeting.dump();
}

Handshake::Step Handshake::on(std::string_view message) {
  const int number = messages_++;
  try {
    if (listens_) {
      LONGHAUL_ASSERT(number == 0, "the handshake is over");
      return on_claim(message);
    }
    LONGHAUL_ASSERT(number <= 1, "the handshake is over");
    return number == 0 ? on_challenge(message) : on_proof(message);
  } catch (const Error& error) {
    return refuse(error.code(), printable(error.fields().what), false);
  }
}

Handshake::Step Handshake::refuse(ExitCode code, std::string reason, bool proven) const {
  Step step{.refused = Refusal{.code = code, .reason = std::move(reason), .proven = proven}};
  if (listens_) step.reply = nlohmann::json{{"refused", step.refused->reason}, {"code", static_cast<int>(code)}}.dump();
  return step;
}

Handshake::Step Handshake::on_challenge(std::string_view message) {
  const nlohmann::json root = parse_json(message, "the driver's greeting", kHandshakeRules);
  const JsonView greeting(root, "the driver's greeting", kHandshakeRules);
  if (greeting.has("refused"))
    return refuse(static_cast<ExitCode>(greeting.at("code").integer(1, 255)), printable(greeting.at("refused").string()), false);
  peer_ = {.role = greeting.at("role").string(),
           .name = "",
           .job = greeting.at("job").string(),
           .generation = static_cast<uint64_t>(greeting.at("generation").integer(0)),
           .version = greeting.at("version").string()};
  driver_challenge_ = challenge_of(greeting.at("challenge").string());
  if (greeting.at("protocol").integer() != kProtocol || peer_.version != self_.version)
    return refuse(ExitCode::kUsage, fmt::format("the driver is version {}, this node {}", brief(printable(peer_.version)), self_.version),
                  false);
  if (peer_.role != "driver") return refuse(ExitCode::kUsage, "who listens there is no driver", false);
  // A node that is started by hand takes the job that it finds.
  if (self_.job.empty()) self_.job = peer_.job;
  const nlohmann::json claim = {{"protocol", kProtocol},
                                {"version", self_.version},
                                {"job", self_.job},
                                {"generation", self_.generation},
                                {"role", self_.role},
                                {"name", self_.name},
                                {"challenge", to_hex(peer_challenge_)},
                                {"proof", prove(self_.role)}};
  return {.reply = claim.dump()};
}

Handshake::Step Handshake::on_claim(std::string_view message) {
  const nlohmann::json root = parse_json(message, "a node's greeting", kHandshakeRules);
  const JsonView claim(root, "a node's greeting", kHandshakeRules);
  peer_ = {.role = claim.at("role").string(),
           .name = claim.at("name").string(),
           .job = claim.at("job").string(),
           .generation = static_cast<uint64_t>(claim.at("generation").integer(0)),
           .version = claim.at("version").string()};
  peer_challenge_ = challenge_of(claim.at("challenge").string());
  if (claim.at("protocol").integer() != kProtocol || peer_.version != self_.version)
    return refuse(ExitCode::kUsage, fmt::format("the driver is version {}, the node {}", self_.version, brief(printable(peer_.version))),
                  false);
  if (!equal_in_constant_time(claim.at("proof").string(), prove(peer_.role)))
    return refuse(ExitCode::kUsage, "the secret is not the driver's", false);
  if (peer_.role != "node" && peer_.role != "operator") return refuse(ExitCode::kUsage, "an unknown role", true);
  if (peer_.job != self_.job) return refuse(ExitCode::kUsage, "the node belongs to another run", true);
  if (peer_.generation > self_.generation)
    return refuse(ExitCode::kFenced, fmt::format("generation {} has begun; this driver is of {}", peer_.generation, self_.generation),
                  true);
  return {.reply = nlohmann::json{{"proof", prove("driver")}}.dump(), .established = true};
}

Handshake::Step Handshake::on_proof(std::string_view message) {
  const nlohmann::json root = parse_json(message, "the driver's answer", kHandshakeRules);
  const JsonView answer(root, "the driver's answer", kHandshakeRules);
  if (answer.has("refused"))
    return refuse(static_cast<ExitCode>(answer.at("code").integer(1, 255)), printable(answer.at("refused").string()), false);
  if (!equal_in_constant_time(answer.at("proof").string(), prove("driver")))
    return refuse(ExitCode::kUsage, "the driver does not have this node's secret", false);
  if (peer_.job != self_.job) return refuse(ExitCode::kUsage, "the driver belongs to another run", true);
  if (peer_.generation < self_.generation)
    return refuse(ExitCode::kFenced, fmt::format("the driver is of generation {}, and {} has begun", peer_.generation, self_.generation),
                  true);
  return {.established = true};
}

}  // namespace longhaul::control
