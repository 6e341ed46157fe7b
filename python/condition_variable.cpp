// Waits as std::condition_variable does, without the symbol that GCC 12's library gave a new version
// (GLIBCXX_3.4.30): so that a module built here runs beside GCC 11's (AlmaLinux 9). The
// linker hands the call to us (CMakeLists.txt, --wrap).

#include <condition_variable>
#include <mutex>
#include <pthread.h>

extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier): the linker's name for std::condition_variable::wait
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* variable,
                                                                      std::unique_lock<std::mutex>& lock) {
  pthread_cond_wait(variable->native_handle(), lock.mutex()->native_handle());
}
}
