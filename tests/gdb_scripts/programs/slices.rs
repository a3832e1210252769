//! A token loop as Rust writes it: tokens and layers in slices. The program's code is the sum of what it sampled.
#![no_std]
#![no_main]

pub struct Layer {
    used: usize,
}

pub struct Engine<'a> {
    layers: &'a mut [Layer],
    n_past: usize,
    sum: u32,
}

impl Engine<'_> {
    #[inline(never)]
    fn forward(&mut self, tokens: &[u32]) -> u32 {
        let mut i = 0;
        while i < self.layers.len() {
            self.layers[i].used += tokens.len();
            i += 1;
        }
        self.n_past += tokens.len();
        i = 0;
        while i < tokens.len() {
            self.sum += tokens[i];
            i += 1;
        }
        self.sum % 50
    }
}

#[no_mangle]
pub extern "C" fn main() -> i32 {
    let mut layers = [Layer { used: 0 }, Layer { used: 0 }, Layer { used: 0 }];
    let mut engine = Engine { layers: &mut layers, n_past: 0, sum: 0 };
    let mut token = engine.forward(&[11, 12, 13]);
    let mut all = 0;
    let mut i = 0;
    while i < 4 {
        all += token;
        token = engine.forward(&[token]);
        i += 1;
    }
    all as i32
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
