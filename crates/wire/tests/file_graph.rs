//! No circle of files within a crate: what two files need of each other stands in a third, below both.
//!
//! Read are `use` and paths that are written out, but neither tests nor the arguments of macros. A name that is handed
//! on (`pub use`) counts where it is defined. What the head of its folder defines, a file may use: it is part of that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::{self, successors};
use std::path::Path;
use std::slice;

use syn::visit::{self, Visit};
use syn::{Ident, ItemMod, ItemUse, Meta, UseTree};

/// A path: of a module, from the root of its crate, or as it is written.
type Names = Vec<String>;

/// What is read of a file.
#[derive(Default)]
struct File {
    modules: Names,
    paths: Vec<Names>,
    imported: BTreeMap<String, Names>,
}

impl File {
    fn import(&mut self, tree: &UseTree, path: &[String]) {
        let with = |name: &Ident| [path, &[name.to_string()]].concat();
        let (alias, name) = match tree {
            UseTree::Path(part) => return self.import(&part.tree, &with(&part.ident)),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, path)),
            UseTree::Rename(renamed) => (&renamed.rename, &renamed.ident),
            UseTree::Name(name) if name.ident != "self" => (&name.ident, &name.ident),
            UseTree::Name(_) | UseTree::Glob(_) => return self.paths.push(path.to_vec()),
        };
        self.imported.insert(alias.to_string(), with(name));
        self.paths.push(with(name));
    }
}

impl Visit<'_> for File {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        let is_test = |meta: &Meta| matches!(meta, Meta::List(list) if list.tokens.to_string() == "test");
        if !item.attrs.iter().any(|attribute| is_test(&attribute.meta)) {
            self.modules.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        self.import(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// Reads a module and those within it that have files of their own.
fn read(path: &Path, module: Names, files: &mut BTreeMap<Names, File>) {
    let mut file = File::default();
    file.visit_file(&syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap());
    let is_head = ["lib", "main", "mod"].iter().any(|head| path.file_stem().unwrap() == *head);
    let folder = if is_head { path.parent().unwrap().to_owned() } else { path.with_extension("") };
    for name in &file.modules {
        let places = [format!("{name}.rs"), format!("{name}/mod.rs")].map(|place| folder.join(place));
        if let Some(place) = places.iter().find(|place| place.exists()) {
            read(place, [&module, slice::from_ref(name)].concat(), files);
        }
    }
    files.insert(module, file);
}

/// The file that defines what a path leads to; none where it begins outside, or with a name that was imported.
fn defined_in(files: &BTreeMap<Names, File>, here: &[String], path: &[String]) -> Option<Names> {
    let (mut at, from) = match path[0].as_str() {
        "crate" => (Names::new(), 1),
        "self" => (here.to_vec(), 1),
        first if first == "super" || files.contains_key(&[here, &path[..1]].concat()) => (here.to_vec(), 0),
        _ => return None,
    };
    for (index, name) in path.iter().enumerate().skip(from) {
        match files[&at].imported.get(name) {
            _ if name == "super" => drop(at.pop()),
            _ if files.contains_key(&[&at, &path[index..=index]].concat()) => at.push(name.clone()),
            // In a module within a file `super` is that file, and the path stands for itself.
            Some(all) if !path.starts_with(all) => return defined_in(files, &at, &[all, &path[index + 1..]].concat()),
            _ => break,
        }
    }
    Some(at)
}

/// Files each of which uses the next one, and the last the first.
fn circle(mut graph: BTreeMap<Names, BTreeSet<Names>>) -> Option<Vec<Names>> {
    while let Some((lowest, _)) = graph.iter().find(|(_, used)| used.iter().all(|one| !graph.contains_key(one))) {
        graph.remove(&lowest.clone());
    }
    let next = |at: &&Names| graph[*at].iter().find(|one| graph.contains_key(*one));
    let first = successors(graph.keys().next(), next).nth(graph.len())?;
    let others = successors(next(&first), next).take_while(|at| *at != first);
    Some(iter::once(first).chain(others).cloned().collect())
}

#[test]
fn no_crate_has_a_circle_of_files() {
    for folder in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.as_ref().unwrap().path().join(root));
        let mut files = BTreeMap::new();
        read(roots.iter().find(|root| root.exists()).unwrap(), Names::new(), &mut files);
        let uses = |(at, file): (&Names, &File)| {
            let defining = file.paths.iter().filter_map(|path| defined_in(&files, at, path));
            (at.clone(), defining.filter(|other| !at.starts_with(other)).collect())
        };
        assert_eq!(circle(files.iter().map(uses).collect()), None, "{}", roots[0].display());
    }
}
