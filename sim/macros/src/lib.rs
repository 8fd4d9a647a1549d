//! The attribute `#[moored_sim::test]`; what it makes is told there.

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, ItemFn, LitInt, ReturnType, Token};

/// How many seeds are played where the test does not say.
const SEEDS: u64 = 100;

/// Makes a test that is played over seeds.
///
/// Two forms. A plain function without arguments returns what is played, a `moored_sim::embed::Simulation` or a
/// `moored_sim::scenario::Scenario`. An `async` function with one argument, a `moored_sim::play::Sim`, is itself what
/// drives the run, over whatever the generator makes go wrong on each seed.
///
/// `#[moored_sim::test(seeds = 300)]` says how many seeds; without, 100.
#[proc_macro_attribute]
pub fn test(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let attributes = syn::parse_macro_input!(attributes as Attributes);
    let function = syn::parse_macro_input!(item as ItemFn);
    expand(&attributes, &function).unwrap_or_else(|error| error.to_compile_error()).into()
}

struct Attributes {
    seeds: u64,
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = Self { seeds: SEEDS };
        for attribute in Punctuated::<Attribute, Token![,]>::parse_terminated(input)? {
            if attribute.name != "seeds" {
                return Err(syn::Error::new(attribute.name.span(), "there is only `seeds = N`"));
            }
            attributes.seeds = attribute.value.base10_parse()?;
            if attributes.seeds == 0 {
                return Err(syn::Error::new(
                    attribute.value.span(),
                    "a test has at least one seed",
                ));
            }
        }
        Ok(attributes)
    }
}

struct Attribute {
    name: Ident,
    value: LitInt,
}

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self { name, value: input.parse()? })
    }
}

fn expand(attributes: &Attributes, function: &ItemFn) -> syn::Result<proc_macro2::TokenStream> {
    let ItemFn { attrs, vis, sig, block } = function;
    let (name, seeds) = (&sig.ident, attributes.seeds);
    let inputs = &sig.inputs;
    let made = match (sig.asyncness.is_some(), inputs.len(), &sig.output) {
        (true, 1, ReturnType::Default) => quote! {
            async fn driven(#inputs) #block
            ::moored_sim::embed::Simulation::driven_over_faults(driven)
        },
        (false, 0, ReturnType::Type(_, made)) => quote! {
            fn made() -> #made #block
            ::moored_sim::embed::Simulation::from(made())
        },
        _ => {
            let words = "a simulated test is `fn name() -> Simulation`, or `async fn name(sim: Sim)` that returns nothing";
            return Err(syn::Error::new_spanned(sig, words));
        }
    };
    Ok(quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() {
            fn simulation() -> ::moored_sim::embed::Simulation {
                #made
            }
            ::moored_sim::embed::run_test(&::moored_sim::embed::Test {
                name: ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)),
                folder: ::core::env!("CARGO_MANIFEST_DIR"),
                seeds: #seeds,
                simulation,
            });
        }
    })
}
