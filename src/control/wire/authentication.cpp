#include "control/wire/authentication.h"

#include "base/files/file.h"
#include "base/net/cipher.h"
#include "base/net/secret.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/version.h"

namespace longhaul::control {
namespace {

constexpr int64_t kProtocol = 3;
constexpr size_t kChallengeBytes = 32;
constexpr JsonRules kHandshakeRules{.code = ExitCode::kCommunication,
                                    .what = "a greeting that cannot be read",
                                    .depth = 2,
                                    .string_bytes = 512};

// The bytes of a challenge, or of half of a key exchange.
std::string number_in(const JsonView& greeting, const char* name) {
  std::string bytes = from_hex(greeting.at(name).string());
  if (bytes.size() != kChallengeBytes)
    throw Error({.code = ExitCode::kCommunication,
                 .what = "a greeting that cannot be read",
                 .expected = "numbers of 32 bytes"});
  return bytes;
}

std::string what_of(const Identity& peer) {
  return peer.role == "operator" ? "the job's operators"
                                 : fmt::format("the job's node {}", brief(printable(peer.name)));
}

void append_part(std::string& all, std::string_view part) {
  for (int shift = 0; shift < 64; shift += 8)
    all.push_back(static_cast<char>(uint64_t{part.size()} >> shift));
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

Keys driver_keys(const std::filesystem::path& control) {
  const auto own = [&](const char* name) { return read_or_make_secret(control / name); };
  Keys keys{.of_nodes = own("secret"),
            .of_operators = own("operator-secret"),
            .signing = own("driver-key"),
            .driver = {}};
  keys.driver = public_signing_key(keys.signing);
  for (const char* name : {"secret", "operator-secret"}) tell_driver_key(control / name, keys.driver);
  return keys;
}

std::string node_key(std::string_view secret, std::string_view name) {
  return hmac_sha256(secret, fmt::format("key of the node {}", name));
}

Keys node_keys(const std::filesystem::path& secret, const std::string& name) {
  const std::string node = read_node_name(secret);
  if (!node.empty() && node != name) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the secret is the key of another node",
                 .expected = printable(node),
                 .found = printable(name),
                 .where = secret.string(),
                 .hint = fmt::format("--name {}, or a key of its own: longhaul launch key RUN {}",
                                     shell_quoted(node), shell_quoted(name))});
  }
  const std::string found = read_secret(secret);
  return {.own = node.empty() ? node_key(found, name) : found, .driver = read_driver_key(secret)};
}

void write_node_key(const std::filesystem::path& control, const std::string& name,
                    const std::filesystem::path& file) {
  if (name.empty() || name.size() > 64 || printable(name) != name) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "no name for a node",
                 .expected = "1 to 64 printable bytes",
                 .found = brief(printable(name)),
                 .where = "NODE"});
  }
  make_folders(control);
  std::filesystem::permissions(control, std::filesystem::perms::owner_all);
  const Keys keys = driver_keys(control);
  write_node_secret(file, node_key(keys.of_nodes, name), keys.driver, name);
}

Keys operator_keys(const std::filesystem::path& control) {
  const std::filesystem::path file = control / "operator-secret";
  return {.of_operators = read_secret(file), .driver = read_driver_key(file)};
}

std::string Seal::close(std::string_view message) { return seal(key_, number_++, message); }

std::optional<std::string> Seal::open(std::string_view sealed) {
  std::optional<std::string> message = opened(key_, number_, sealed);
  if (message) ++number_;
  return message;
}

void Seal::renew(std::string_view label) { key_ = hmac_sha256(key_, fmt::format("renewed: {}", label)); }

Handshake::Handshake(Keys keys, Identity self, bool listens)
    : keys_(std::move(keys)),
      self_(std::move(self)),
      listens_(listens),
      own_exchange_(random_bytes(kKeyBytes)) {
  (listens_ ? driver_challenge_ : peer_challenge_) = random_bytes(kChallengeBytes);
  (listens_ ? driver_half_ : peer_half_) = public_exchange_key(own_exchange_);
}

std::string Handshake::secret() const {
  const Identity& peer = listens_ ? peer_ : self_;
  if (peer.role == "operator") return keys_.of_operators;
  if (!listens_ && !keys_.own.empty()) return keys_.own;
  return keys_.of_nodes.empty() ? "" : node_key(keys_.of_nodes, peer.name);
}

void Handshake::exchange(std::string_view theirs) {
  const auto shared = shared_key(own_exchange_, theirs);
  if (!shared)
    throw Error({.code = ExitCode::kCommunication,
                 .what = "a greeting that cannot be read",
                 .expected = "half of a key"});
  shared_ = *shared;
}

// Everything that both sides have sent, each part preceded by its length.
std::string Handshake::transcript(std::string_view purpose) const {
  const Identity& driver = listens_ ? self_ : peer_;
  const Identity& peer = listens_ ? peer_ : self_;
  std::string all;
  append_part(all, purpose);
  append_part(all, driver_challenge_);
  append_part(all, peer_challenge_);
  append_part(all, driver_half_);
  append_part(all, peer_half_);
  append_part(all, keys_.driver);
  for (const Identity* who : {&driver, &peer}) {
    for (const std::string& part :
         {who->role, who->name, who->job, std::to_string(who->generation), who->version})
      append_part(all, part);
  }
  return all;
}

std::string Handshake::prove(std::string_view who) const {
  return to_hex(hmac_sha256(secret(), transcript(fmt::format("proof of {}", who))));
}
std::string Handshake::key(std::string_view direction) const {
  return hmac_sha256(hmac_sha256(shared_, secret()), transcript(fmt::format("key of {}", direction)));
}

std::string Handshake::opening() {
  if (!listens_) return "";
  const nlohmann::json greeting = {{"protocol", kProtocol},
                                   {"version", self_.version},
                                   {"job", self_.job},
                                   {"generation", self_.generation},
                                   {"role", self_.role},
                                   {"challenge", to_hex(driver_challenge_)},
                                   {"exchange", to_hex(driver_half_)},
                                   {"key", to_hex(keys_.driver)}};
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
  if (listens_)
    step.reply = nlohmann::json{{"refused", step.refused->reason}, {"code", static_cast<int>(code)}}.dump();
  return step;
}

Handshake::Step Handshake::on_challenge(std::string_view message) {
  const nlohmann::json root = parse_json(message, "the driver's greeting", kHandshakeRules);
  const JsonView greeting(root, "the driver's greeting", kHandshakeRules);
  if (greeting.has("refused"))
    return refuse(static_cast<ExitCode>(greeting.at("code").integer(1, 255)),
                  printable(greeting.at("refused").string()), false);
  peer_ = {.role = greeting.at("role").string(),
           .name = "",
           .job = greeting.at("job").string(),
           .generation = static_cast<uint64_t>(greeting.at("generation").integer(0)),
           .version = greeting.at("version").string()};
  if (greeting.at("protocol").integer() != kProtocol || peer_.version != self_.version)
    return refuse(
        ExitCode::kUsage,
        fmt::format("the driver is version {}, this node {}", brief(printable(peer_.version)), self_.version),
        false);
  driver_challenge_ = number_in(greeting, "challenge");
  driver_half_ = number_in(greeting, "exchange");
  if (peer_.role != "driver") return refuse(ExitCode::kUsage, "who listens there is no driver", false);
  if (std::string key = number_in(greeting, "key"); keys_.driver.empty()) {
    keys_.driver = std::move(key);
  } else if (key != keys_.driver) {
    return refuse(ExitCode::kUsage,
                  "the driver has another key than this secret's: copy RUN/control/secret again", false);
  }
  exchange(driver_half_);
  // A node that was started by hand accepts the job that it finds.
  if (self_.job.empty()) self_.job = peer_.job;
  const nlohmann::json claim = {{"protocol", kProtocol},
                                {"version", self_.version},
                                {"job", self_.job},
                                {"generation", self_.generation},
                                {"role", self_.role},
                                {"name", self_.name},
                                {"challenge", to_hex(peer_challenge_)},
                                {"exchange", to_hex(peer_half_)},
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
  if (claim.at("protocol").integer() != kProtocol || peer_.version != self_.version)
    return refuse(
        ExitCode::kUsage,
        fmt::format("the driver is version {}, the node {}", self_.version, brief(printable(peer_.version))),
        false);
  peer_challenge_ = number_in(claim, "challenge");
  peer_half_ = number_in(claim, "exchange");
  exchange(peer_half_);
  const bool known = peer_.role == "node" || peer_.role == "operator";
  if (!known || secret().empty() || !equal_in_constant_time(claim.at("proof").string(), prove(peer_.role)))
    return refuse(ExitCode::kUsage,
                  known ? fmt::format("the secret is not that of {}", what_of(peer_)) : "an unknown role",
                  false);
  if (peer_.job != self_.job) return refuse(ExitCode::kUsage, "the node belongs to another run", true);
  if (peer_.generation > self_.generation)
    return refuse(
        ExitCode::kFenced,
        fmt::format("generation {} has begun; this driver is of {}", peer_.generation, self_.generation),
        true);
  const std::string sign = signature(keys_.signing, transcript("signature of the driver"));
  return {.reply = nlohmann::json{{"proof", prove("driver")}, {"signature", to_hex(sign)}}.dump(),
          .established = true};
}

Handshake::Step Handshake::on_proof(std::string_view message) {
  const nlohmann::json root = parse_json(message, "the driver's answer", kHandshakeRules);
  const JsonView answer(root, "the driver's answer", kHandshakeRules);
  if (answer.has("refused"))
    return refuse(static_cast<ExitCode>(answer.at("code").integer(1, 255)),
                  printable(answer.at("refused").string()), false);
  if (!equal_in_constant_time(answer.at("proof").string(), prove("driver")))
    return refuse(ExitCode::kUsage, "the driver does not have this node's secret", false);
  if (!is_signed(keys_.driver, transcript("signature of the driver"),
                 from_hex(answer.at("signature").string())))
    return refuse(ExitCode::kUsage, "who answers there has not the driver's key", false);
  if (peer_.job != self_.job) return refuse(ExitCode::kUsage, "the driver belongs to another run", true);
  if (peer_.generation < self_.generation)
    return refuse(
        ExitCode::kFenced,
        fmt::format("the driver is of generation {}, and {} has begun", peer_.generation, self_.generation),
        true);
  return {.established = true};
}

}  // namespace longhaul::control
