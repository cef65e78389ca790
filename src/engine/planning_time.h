// What plans and lessons take of the training thread: every moment of it once, however the parts lie in one another.
//
//   sum grows while a Part lives and no Wait does
//
// A Wait is for what the device has to do for the training itself. Belongs to the engine's lock.
#pragma once

#include "device/device.h"

namespace spillway {

class PlanningTime {
 public:
  PlanningTime(const Device& device, Nanos& sum) : device_(device), sum_(sum) {}
  PlanningTime(const PlanningTime&) = delete;
  PlanningTime& operator=(const PlanningTime&) = delete;

  class Part {
   public:
    // Not `on`: it does not count, and no clock is read.
    explicit Part(PlanningTime& time, bool on = true) : time_(on ? &time : nullptr) {
      if (time_ != nullptr && time_->parts_++ == 0) time_->go_on();
    }
    ~Part() {
      if (time_ != nullptr && --time_->parts_ == 0) time_->pause();
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    PlanningTime* time_;
  };

  class Wait {
   public:
    explicit Wait(PlanningTime& time) : time_(time) {
      if (time_.parts_ > 0) time_.pause();
    }
    ~Wait() {
      if (time_.parts_ > 0) time_.go_on();
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    PlanningTime& time_;
  };

 private:
  void go_on() { began_ = device_.now(); }
  void pause() { sum_ += device_.now() - began_; }

  const Device& device_;
  Nanos& sum_;
  Nanos began_;
  int parts_ = 0;
};

}  // namespace spillway
