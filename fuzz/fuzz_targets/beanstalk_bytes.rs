//! beanstalkd's port: any bytes. The first one says how they are cut.

#![no_main]

use auxo_fuzz::beanstalk;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((cut, bytes)) = bytes.split_first() {
        beanstalk::check(bytes, &[*cut], 100);
    }
});
