// Two processes that believe each other only when both have the secret, belong to the same job and are no older than what the other knows.
#include "control/authentication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/secret.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

const std::string kSecret(32, 's');

struct TestSides {
  Handshake driver, node;
  explicit TestSides(std::string node_secret = kSecret, Identity node_identity = own_identity("node", "node-1", "run", 3),
                     Identity driver_identity = own_identity("driver", "", "run", 3))
      : driver(kSecret, std::move(driver_identity), true), node(std::move(node_secret), std::move(node_identity), false) {}

  // → of the driver, of the node; what is on its way can be changed.
  std::pair<Handshake::Step, Handshake::Step> run(const std::function<void(int, std::string&)>& change = [](int, std::string&) {}) {
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
  for (const std::string message : {"start", "", "stop"}) EXPECT_EQ(receives.open(sends.close(message)), message);
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
  for (const std::string text : {"", "{", "[]", "{}", "null", "{\"refused\":1}", "{\"protocol\":1e99}", "\xff\xfe"}) {
    TestSides sides;
    EXPECT_TRUE(sides.driver.on(text).refused) << text;
    EXPECT_TRUE(sides.node.on(text).refused) << text;
  }
}

}  // namespace
}  // namespace longhaul::control
