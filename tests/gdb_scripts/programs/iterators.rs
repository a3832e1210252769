//! As slices.rs, but the forward is a trait's, and begins with a function that is inlined there.
#![no_std]
#![no_main]

pub trait Model {
    fn forward(&mut self, tokens: &[u32]) -> u32;
}

pub struct Layer {
    used: usize,
}

pub struct Layers<'a> {
    layers: &'a mut [Layer],
}

impl Layers<'_> {
    fn each(&mut self) -> core::slice::IterMut<'_, Layer> {
        self.layers.iter_mut()
    }
}

pub struct Engine<'a> {
    all: Layers<'a>,
    n_past: usize,
    sum: u32,
}

impl Model for Engine<'_> {
    #[inline(never)]
    fn forward(&mut self, tokens: &[u32]) -> u32 {
        for layer in self.all.each() {
            for _ in tokens {
                layer.used = core::hint::black_box(layer.used + 1);
            }
        }
        self.n_past += tokens.len();
        for token in tokens {
            self.sum = core::hint::black_box(self.sum + token);
        }
        self.sum % 50
    }
}

#[no_mangle]
pub extern "C" fn main() -> i32 {
    let mut layers = [Layer { used: 0 }, Layer { used: 0 }, Layer { used: 0 }];
    let mut engine = Engine { all: Layers { layers: &mut layers }, n_past: 0, sum: 0 };
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
