// Two processes that believe each other only when both have the secret, belong to the same job and are no
// older than what the other knows.
#include "control/wire/authentication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/net/cipher.h"
#include "base/net/secret.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

const std::string kSecret(32, 's'), kOperators(32, 'o'), kSigning(32, 'd');

Keys keys_of_driver(const std::string& signing = kSigning) {
  return {.of_nodes = kSecret,
          .of_operators = kOperators,
          .signing = signing,
          .driver = public_signing_key(signing)};
}
Keys keys_of_node(const std::string& secret = kSecret) {
  return {.of_nodes = secret, .driver = public_signing_key(kSigning)};
}

struct TestSides {
  Handshake driver, node;
  TestSides(Keys driver_keys, Keys peer_keys, Identity peer)
      : driver(std::move(driver_keys), own_identity("driver", "", "run", 3), true),
        node(std::move(peer_keys), std::move(peer), false) {}
  explicit TestSides(const std::string& node_secret = kSecret,
                     Identity node_identity = own_identity("node", "node-1", "run", 3))
      : TestSides(keys_of_driver(), keys_of_node(node_secret), std::move(node_identity)) {}

  // → of the driver, of the node; what is on its way can be changed.
  std::pair<Handshake::Step, Handshake::Step> run(const std::function<void(int, std::string&)>& change =
                                                      [](int, std::string&) {}) {
    std::string greeting = driver.opening();
    change(0, greeting);
    Handshake::Step of_node = node.on(greeting), of_driver;
    if (of_node.refused) return {of_driver, of_node};
    change(1, of_node.reply);
    of_driver = driver.on(of_node.reply);
    change(2, of_driver.reply);
    return {of_driver, node.on(of_driver.reply)};
  }
};

TEST(Authentication, ARenewedKeyOpensNothingOfTheOldOne) {
  TestSides sides;
  ASSERT_TRUE(sides.run().second.established);
  Seal sending = sides.driver.sending(), receiving = sides.node.receiving(), of_before = receiving;
  sending.renew("2");
  const std::string sealed = sending.close("start");
  EXPECT_FALSE(of_before.open(sealed).has_value());
  Seal other = receiving;
  other.renew("3");
  EXPECT_FALSE(other.open(sealed).has_value());
  receiving.renew("2");
  EXPECT_EQ(receiving.open(sealed), "start");
  EXPECT_FALSE(receiving.open(sealed).has_value()) << "numbers go on";
}

TEST(Authentication, BothSidesBelieveAndTalk) {
  TestSides sides;
  const auto [driver, node] = sides.run();
  ASSERT_TRUE(driver.established);
  ASSERT_TRUE(node.established);
  EXPECT_EQ(sides.driver.peer().name, "node-1");
  EXPECT_EQ(sides.node.peer().role, "driver");
  Seal sends = sides.driver.sending(), receives = sides.node.receiving();
  for (const std::string message : {"start", "", "stop"})
    EXPECT_EQ(receives.open(sends.close(message)), message);
  Seal back = sides.node.sending();
  EXPECT_EQ(sides.driver.receiving().open(back.close("beat")), "beat");
}

TEST(Authentication, MessagesAreTakenOnceInOrderAndUnchanged) {
  TestSides sides;
  sides.run();
  Seal sends = sides.driver.sending();
  const std::string first = sends.close("first"), second = sends.close("second");
  Seal receives = sides.node.receiving();
  EXPECT_FALSE(Seal(receives).open(second)) << "one left out";
  ASSERT_TRUE(receives.open(first));
  EXPECT_FALSE(Seal(receives).open(first)) << "the same again";
  std::string changed = second;
  changed[0] = 'S';
  EXPECT_FALSE(Seal(receives).open(changed));
  EXPECT_FALSE(Seal(receives).open("short"));
  EXPECT_FALSE(sides.driver.receiving().open(first)) << "its own words, sent back to it";
  TestSides others;
  others.run();
  EXPECT_FALSE(others.node.receiving().open(first)) << "of another connection";
}

// Any machine of the job has the nodes' secret: with that alone nobody is let go.
TEST(Authentication, ANodeIsNoOperator) {
  const Identity asks = own_identity("operator", "", "", 0);
  const auto [refused, told] = TestSides(keys_of_driver(), {.of_operators = kSecret}, asks).run();
  ASSERT_TRUE(refused.refused);
  EXPECT_FALSE(refused.refused->proven);
  EXPECT_THAT(refused.refused->reason, HasSubstr("operators"));
  EXPECT_TRUE(told.refused);
  const auto [taken, answered] =
      TestSides(keys_of_driver(), {.of_operators = kOperators, .driver = keys_of_driver().driver}, asks)
          .run();
  EXPECT_TRUE(taken.established);
  EXPECT_TRUE(answered.established);
  Keys without = keys_of_driver();
  without.of_operators.clear();
  EXPECT_TRUE(TestSides(without, {.of_operators = ""}, asks).run().first.refused)
      << "no secret is nobody's secret";
  EXPECT_TRUE(TestSides(keys_of_driver(), {.of_nodes = kOperators}, own_identity("node", "n", "run", 3))
                  .run()
                  .first.refused)
      << "nor is an operator a node";
}

// A machine that has its own key alone is taken as itself, and as nobody else: neither by its driver, nor by
// another node as their driver.
TEST(Authentication, ANodeSpeaksForItselfAlone) {
  const auto with = [](const std::string& of, const std::string& as) {
    Keys keys{.own = node_key(kSecret, of), .driver = keys_of_driver().driver};
    return TestSides(keys_of_driver(), std::move(keys), own_identity("node", as, "run", 3)).run();
  };
  const auto [taken, answered] = with("node-1", "node-1");
  EXPECT_TRUE(taken.established);
  EXPECT_TRUE(answered.established);
  const auto [refused, told] = with("node-1", "node-2");
  ASSERT_TRUE(refused.refused);
  EXPECT_FALSE(refused.refused->proven);
  EXPECT_THAT(refused.refused->reason, HasSubstr("not that of the job's node node-2"));
  EXPECT_TRUE(told.refused);
  Keys asks{.of_operators = node_key(kSecret, "node-1"), .driver = keys_of_driver().driver};
  EXPECT_TRUE(TestSides(keys_of_driver(), asks, own_identity("operator", "", "", 0)).run().first.refused);
  // The key is an HMAC, by the words of RFC 2104 and not by the code: 32 bytes of 's', "key of the node
  // node-1".
  EXPECT_EQ(to_hex(node_key(kSecret, "node-1")),
            "27d307c7132016bfc0f92a73c1c30357774c4fd7db08dd4befd052f69e71e889");
}

TEST(Authentication, AFileMakesOneNode) {
  const TemporaryFolder folder;
  const std::filesystem::path control = folder / "control", file = folder / "rack-2.key";
  write_node_key(control, "rack-2", file);
  EXPECT_EQ(std::filesystem::status(control).permissions(), std::filesystem::perms(0700));
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
  const Keys driver = driver_keys(control), of_file = node_keys(file, "rack-2"),
             of_secret = node_keys(control / "secret", "rack-2");
  EXPECT_EQ(of_file.own, of_secret.own) << "a copy of the job's secret makes any node";
  EXPECT_EQ(of_file.driver, driver.driver);
  EXPECT_EQ(of_file.of_nodes + of_secret.of_nodes, "") << "a daemon keeps no more than its own";
  EXPECT_EQ(read_text(file).find(to_hex(driver.of_nodes)), std::string::npos);
  EXPECT_NE(node_keys(control / "secret", "rack-3").own, of_file.own);
  const auto text_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(text_of([&] { node_keys(file, "rack-3"); }),
              ::testing::AllOf(HasSubstr("the key of another node"), HasSubstr("--name rack-2"),
                               HasSubstr("launch key RUN rack-3")));
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string(65, 'n')})
    EXPECT_THAT(text_of([&] { write_node_key(control, name, folder / "none"); }),
                HasSubstr("no name for a node"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

// A machine with the nodes' secret that stands at the driver's address is not obeyed.
TEST(Authentication, ANodeIsNotTheDriver) {
  const std::string own(32, 'x');
  const Identity node = own_identity("node", "node-1", "run", 3);
  const auto [as_itself, found] = TestSides(keys_of_driver(own), keys_of_node(), node).run();
  ASSERT_TRUE(found.refused);
  EXPECT_FALSE(found.refused->proven);
  EXPECT_THAT(found.refused->reason, HasSubstr("another key"));
  Keys pretends = keys_of_driver(own);
  pretends.driver = keys_of_driver().driver;
  const auto [as_driver, found_out] = TestSides(pretends, keys_of_node(), node).run();
  ASSERT_TRUE(found_out.refused);
  EXPECT_THAT(found_out.refused->reason, HasSubstr("has not the driver's key"));
}

// Between the two stands one with the secret and passes on what both say: he may not change the exchange, and
// cannot read what follows from it.
TEST(Authentication, WhoStandsBetweenReadsNothing) {
  for (const auto& [message, field] : {std::pair(0, "exchange"), std::pair(1, "exchange")}) {
    TestSides sides;
    const auto [driver, node] = sides.run([&, number = message, name = field](int at, std::string& text) {
      if (at != number) return;
      nlohmann::json changed = nlohmann::json::parse(text);
      changed[name] = to_hex(public_exchange_key(std::string(32, 'b')));
      text = changed.dump();
    });
    EXPECT_TRUE(driver.refused) << message << ": the proof is over both halves";
  }
  TestSides sides;
  sides.run();
  const std::string sealed = sides.driver.sending().close("LONGHAUL_TOKEN=tell-nobody");
  EXPECT_EQ(sealed.find("tell-nobody"), std::string::npos);
  EXPECT_NE(sealed, sides.node.sending().close("LONGHAUL_TOKEN=tell-nobody"))
      << "each direction has its own key";
}

// A copy of a secret from before drivers had a key: the first one with the secret is the one.
TEST(Authentication, WhoKnowsNoDriverKeepsTheFirst) {
  const Identity node = own_identity("node", "node-1", "run", 3);
  TestSides first(keys_of_driver(), {.of_nodes = kSecret}, node);
  EXPECT_TRUE(first.run().second.established);
  EXPECT_EQ(first.node.driver_key(), keys_of_driver().driver);
  EXPECT_TRUE(TestSides(keys_of_driver(std::string(32, 'x')),
                        {.of_nodes = kSecret, .driver = first.node.driver_key()}, node)
                  .run()
                  .second.refused);
}

TEST(Authentication, KeysLieInFilesOfTheirOwn) {
  const TemporaryFolder control;
  write_text_atomically(control / "secret", to_hex(kSecret) + "\n");  // as runs of before have it
  std::filesystem::permissions(control / "secret",
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const Keys driver = driver_keys(control.path());
  EXPECT_EQ(driver.of_nodes, kSecret) << "the run keeps its name, and its nodes their copies";
  EXPECT_EQ(driver.driver, public_signing_key(driver.signing));
  const Keys node = node_keys(control / "secret", "n"), asks = operator_keys(control.path());
  EXPECT_EQ(node.own, node_key(kSecret, "n"));
  EXPECT_EQ(node.driver, driver.driver);
  EXPECT_EQ(node.of_operators + node.signing, "");
  EXPECT_EQ(asks.of_operators, driver.of_operators);
  EXPECT_EQ(asks.driver, driver.driver);
  EXPECT_EQ(asks.of_nodes + asks.signing, "");
  EXPECT_NE(driver.of_nodes, driver.of_operators);
  for (const char* name : {"secret", "operator-secret", "driver-key"}) {
    EXPECT_EQ(std::filesystem::status(control / name).permissions(), std::filesystem::perms(0600)) << name;
  }
  const std::string before = read_text(control / "secret");
  const Keys again = driver_keys(control.path());
  EXPECT_EQ(again.signing, driver.signing);
  EXPECT_EQ(read_text(control / "secret"), before);
  std::filesystem::remove(control / "driver-key");
  const Keys renewed = driver_keys(control.path());
  EXPECT_NE(renewed.driver, driver.driver);
  EXPECT_EQ(node_keys(control / "secret", "n").driver, renewed.driver);
  EXPECT_EQ(node_keys(control / "secret", "n").own, node.own);
}

TEST(Authentication, AWrongSecretIsRefusedAndNotTold) {
  const std::string wrong(32, 'w');
  TestSides sides(wrong);
  const auto [driver, node] = sides.run();
  ASSERT_TRUE(driver.refused);
  EXPECT_FALSE(driver.refused->proven);
  EXPECT_THAT(driver.refused->reason, HasSubstr("secret"));
  ASSERT_TRUE(node.refused);
  EXPECT_EQ(node.refused->code, ExitCode::kUsage);
  for (const std::string& secret : {kSecret, wrong}) {
    EXPECT_THAT(driver.reply, Not(HasSubstr(to_hex(secret))));
    EXPECT_THAT(driver.refused->reason, Not(HasSubstr(secret)));
  }
}

// A driver without the secret takes any claim, and is found out by its answer.
TEST(Authentication, AFalseDriverIsRefused) {
  TestSides sides;
  const auto [driver, node] = sides.run([](int number, std::string& text) {
    if (number != 2) return;
    text = nlohmann::json{{"proof", std::string(64, '0')}}.dump();
  });
  ASSERT_TRUE(node.refused);
  EXPECT_FALSE(node.refused->proven);
}

TEST(Authentication, EveryClaimIsPartOfTheProof) {
  for (const char* field : {"job", "generation", "role", "name", "challenge"}) {
    TestSides sides;
    const auto [driver, node] = sides.run([&](int number, std::string& text) {
      if (number != 1) return;
      nlohmann::json claim = nlohmann::json::parse(text);
      if (field == std::string("generation")) {
        claim[field] = 2;
      } else if (field == std::string("challenge")) {
        claim[field] = std::string(64, 'a');
      } else {
        claim[field] = "operator";
      }
      text = claim.dump();
    });
    ASSERT_TRUE(driver.refused) << field;
    EXPECT_FALSE(driver.refused->proven) << field;
  }
}

TEST(Authentication, OldGenerationsAreFenced) {
  TestSides newer(kSecret, own_identity("node", "node-1", "run", 4));
  const auto [driver, node] = newer.run();
  ASSERT_TRUE(node.refused || driver.refused);
  ASSERT_TRUE(driver.refused);
  EXPECT_EQ(driver.refused->code, ExitCode::kFenced);
  EXPECT_TRUE(driver.refused->proven);
  TestSides older(kSecret, own_identity("node", "node-1", "run", 2));
  EXPECT_TRUE(older.run().first.established) << "a node that has slept learns of the new one";
}

TEST(Authentication, AnotherVersionAnotherRunAnotherRole) {
  Identity old = own_identity("node", "node-1", "run", 3);
  old.version = "0.0.1 (beef)";
  const auto [nobody, by_node] = TestSides(kSecret, old).run();
  ASSERT_TRUE(by_node.refused);
  EXPECT_THAT(by_node.refused->reason, HasSubstr("0.0.1 (beef)"));
  EXPECT_EQ(by_node.refused->code, ExitCode::kUsage);
  const auto [other_run, unused] = TestSides(kSecret, own_identity("node", "node-1", "other", 3)).run();
  ASSERT_TRUE(other_run.refused);
  EXPECT_TRUE(other_run.refused->proven);
  const auto [other_role, unused2] = TestSides(kSecret, own_identity("rank", "", "run", 3)).run();
  ASSERT_TRUE(other_role.refused);
}

TEST(Authentication, WhatIsNoGreetingIsRefused) {
  for (const std::string text :
       {"", "{", "[]", "{}", "null", "{\"refused\":1}", "{\"protocol\":1e99}", "\xff\xfe"}) {
    TestSides sides;
    EXPECT_TRUE(sides.driver.on(text).refused) << text;
    EXPECT_TRUE(sides.node.on(text).refused) << text;
  }
}

}  // namespace
}  // namespace longhaul::control
