//! The MPI library behind us: which one it is, and its functions.

use std::ffi::{CStr, CString};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{c_char, c_int, c_void};

/// A handle of MPI, whatever it is: a pointer or a number in a register.
pub(crate) type Handle = usize;

/// What stands for a function that is not there.
const ABSENT: usize = 1;

/// The next library's function of this name; none where there is none.
#[inline]
pub(crate) fn next(kept: &AtomicUsize, name: &CStr) -> Option<usize> {
    match kept.load(Ordering::Relaxed) {
        0 => look_up(kept, name),
        ABSENT => None,
        found => Some(found),
    }
}

#[cold]
fn look_up(kept: &AtomicUsize, name: &CStr) -> Option<usize> {
    let found = symbol(libc::RTLD_NEXT, name);
    kept.store(found.unwrap_or(ABSENT), Ordering::Relaxed);
    found
}

fn symbol(from: *mut c_void, name: &CStr) -> Option<usize> {
    symbol_in(from, name).or_else(|| symbol_in(apart()?, name))
}

fn symbol_in(from: *mut c_void, name: &CStr) -> Option<usize> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(from, name.as_ptr()) };
    (!found.is_null()).then_some(found.addr())
}

/// Where MPI is if it came with a module that was loaded for itself, as Python does: such a library
/// is next to none.
fn apart() -> Option<*mut c_void> {
    /// What MPI has, and we have not.
    const MARK: &CStr = c"PMPI_Type_size";
    static KEPT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let kept = KEPT.load(Ordering::Relaxed);
    if !kept.is_null() {
        return Some(kept);
    }
    if symbol_in(libc::RTLD_NEXT, MARK).is_some() {
        return None;
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `note` takes a list of names, and the list outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    let found = names.iter().find_map(|name| {
        // SAFETY: the name ends with a zero, and nothing is loaded that was not.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        let has = symbol_in(library, MARK).is_some();
        if !has {
            // SAFETY: it was opened above, and stays loaded for whoever loaded it.
            unsafe { libc::dlclose(library) };
        }
        has.then_some(library)
    })?;
    KEPT.store(found, Ordering::Relaxed);
    Some(found)
}

/// Notes the name of a library, but not of the program, which has none.
///
/// # Safety
/// `names` must be a list of names, and `info` what the dynamic linker says.
unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _bytes: libc::size_t,
    names: *mut c_void,
) -> c_int {
    // SAFETY: the caller says so.
    let info = unsafe { &*info };
    // SAFETY: as before.
    let names = unsafe { &mut *names.cast::<Vec<CString>>() };
    if !info.dlpi_name.is_null() {
        // SAFETY: a name ends with a zero.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}

/// An MPI library that we know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    pub(crate) world: Handle,
    /// The bits of a register that a handle has.
    mask: usize,
    type_size: extern "C-unwind" fn(Handle, *mut c_int) -> c_int,
    comm_rank: extern "C-unwind" fn(Handle, *mut c_int) -> c_int,
    comm_size: extern "C-unwind" fn(Handle, *mut c_int) -> c_int,
    comm_test_inter: extern "C-unwind" fn(Handle, *mut c_int) -> c_int,
    comm_group: extern "C-unwind" fn(Handle, *mut Handle) -> c_int,
    comm_remote_group: extern "C-unwind" fn(Handle, *mut Handle) -> c_int,
    win_get_group: extern "C-unwind" fn(Handle, *mut Handle) -> c_int,
    group_size: extern "C-unwind" fn(Handle, *mut c_int) -> c_int,
    group_free: extern "C-unwind" fn(*mut Handle) -> c_int,
    translate: extern "C-unwind" fn(Handle, c_int, *const c_int, Handle, *mut c_int) -> c_int,
    shapes: Shapes,
}

/// What `MPI_Topo_test` says of a communicator.
#[derive(Clone, Copy, Debug)]
struct Shapes {
    grid: c_int,
    graph: c_int,
    /// One whose ranks say each who its neighbours are.
    spread: c_int,
}

/// What a rank of a communicator or window is in the world; negative outside of it.
pub(crate) type Table = Box<[c_int]>;

/// What the standard ABI says that `MPI_COMM_WORLD` is.
const STANDARD: Handle = 0x101;

/// Largest group that is translated.
const GROUP_MAX: usize = 1 << 16;

/// More dimensions than grids have.
const DIMENSIONS_MAX: c_int = 1 << 10;

macro_rules! function {
    ($name:literal) => {{
        let found = symbol(libc::RTLD_NEXT, $name).ok_or("a function of MPI is missing")?;
        // SAFETY: a function of this name in an MPI library has this type, handles being registers.
        unsafe { mem::transmute::<usize, _>(found) }
    }};
}

impl Library {
    #[expect(
        clippy::missing_transmute_annotations,
        reason = "each is what the field it goes into says"
    )]
    /// The one that this program is linked with; a reason in words when it is not known.
    pub(crate) fn find() -> Result<Self, &'static str> {
        let (world, mask) = world()?;
        let (grid, graph, spread) = match mask {
            _ if world == STANDARD => (211, 212, 213),
            usize::MAX => (1, 2, 3),
            _ => (2, 1, 3),
        };
        let shapes = Shapes {
            grid,
            graph,
            spread,
        };
        Ok(Self {
            world,
            mask,
            shapes,
            type_size: function!(c"PMPI_Type_size"),
            comm_rank: function!(c"PMPI_Comm_rank"),
            comm_size: function!(c"PMPI_Comm_size"),
            comm_test_inter: function!(c"PMPI_Comm_test_inter"),
            comm_group: function!(c"PMPI_Comm_group"),
            comm_remote_group: function!(c"PMPI_Comm_remote_group"),
            win_get_group: function!(c"PMPI_Win_get_group"),
            group_size: function!(c"PMPI_Group_size"),
            group_free: function!(c"PMPI_Group_free"),
            translate: function!(c"PMPI_Group_translate_ranks"),
        })
    }

    /// Whether handles are pointers, and no numbers of 32 bits.
    pub(crate) const fn has_wide_handles(&self) -> bool {
        self.mask == usize::MAX
    }

    /// A handle as this library has it: the upper half of a register is anything where handles are numbers.
    #[inline]
    pub(crate) const fn handle(&self, register: usize) -> Handle {
        register & self.mask
    }

    /// Number of this rank and of all.
    pub(crate) fn place(&self) -> Option<(c_int, c_int)> {
        let (mut rank, mut size) = (-1, -1);
        let known = (self.comm_rank)(self.world, &raw mut rank) == 0
            && (self.comm_size)(self.world, &raw mut size) == 0;
        (known && rank >= 0 && rank < size).then_some((rank, size))
    }

    /// Bytes of one element.
    pub(crate) fn type_size(&self, kind: Handle) -> Option<u64> {
        let mut size = -1;
        let known = (self.type_size)(kind, &raw mut size) == 0;
        u64::try_from(size).ok().filter(|_| known)
    }

    /// Whether a communicator has a remote group.
    pub(crate) fn is_between(&self, comm: Handle) -> bool {
        let mut between = 0;
        (self.comm_test_inter)(comm, &raw mut between) == 0 && between != 0
    }

    /// The rank of this process in a communicator.
    pub(crate) fn rank_in(&self, comm: Handle) -> Option<c_int> {
        let mut rank = -1;
        let known = (self.comm_rank)(comm, &raw mut rank) == 0;
        (known && rank >= 0).then_some(rank)
    }

    /// The ranks that a communicator's messages go to.
    pub(crate) fn ranks_of(&self, comm: Handle) -> Option<Table> {
        let group = match self.is_between(comm) {
            true => self.comm_remote_group,
            false => self.comm_group,
        };
        self.table(group, comm)
    }

    /// The ranks of a window.
    pub(crate) fn ranks_at(&self, window: Handle) -> Option<Table> {
        self.table(self.win_get_group, window)
    }

    /// The ranks of the world that a neighbourhood call on this communicator sends to, in its order; negative where there
    /// is none.
    pub(crate) fn neighbours_of(&self, comm: Handle) -> Option<Table> {
        let shapes = self.shapes;
        let mut shape = -1;
        let test = symbol(libc::RTLD_NEXT, c"PMPI_Topo_test")?;
        // SAFETY: that is its type.
        let test = unsafe {
            mem::transmute::<usize, extern "C-unwind" fn(Handle, *mut c_int) -> c_int>(test)
        };
        if test(comm, &raw mut shape) != 0 {
            return None;
        }
        let own = match shape {
            _ if shape == shapes.grid => grid(comm),
            _ if shape == shapes.graph => graph(comm, self.rank_in(comm)?),
            _ if shape == shapes.spread => spread(comm),
            _ => None,
        }?;
        let ranks = self.ranks_of(comm)?;
        let of_world = own.iter().map(|rank| {
            let rank = usize::try_from(*rank).ok();
            rank.and_then(|rank| ranks.get(rank).copied()).unwrap_or(-1)
        });
        Some(of_world.collect())
    }

    fn table(
        &self,
        of: extern "C-unwind" fn(Handle, *mut Handle) -> c_int,
        whose: Handle,
    ) -> Option<Table> {
        let (mut group, mut world, mut size) = (0, 0, 0);
        if of(whose, &raw mut group) != 0 {
            return None;
        }
        let known = (self.comm_group)(self.world, &raw mut world) == 0;
        let mut ranks = None;
        if known && (self.group_size)(group, &raw mut size) == 0 {
            let fits = usize::try_from(size).is_ok_and(|size| size <= GROUP_MAX);
            let own: Vec<c_int> = if fits {
                (0..size).collect()
            } else {
                Vec::new()
            };
            let mut there = vec![-1; own.len()];
            let (from, to) = (own.as_ptr(), there.as_mut_ptr());
            if fits && (self.translate)(group, size, from, world, to) == 0 {
                ranks = Some(there.into_boxed_slice());
            }
        }
        if known {
            (self.group_free)(&raw mut world);
        }
        (self.group_free)(&raw mut group);
        ranks
    }
}

/// Neighbours in a grid: along each dimension the one before and the one behind.
fn grid(comm: Handle) -> Option<Vec<c_int>> {
    let (size, shift) = (
        symbol(libc::RTLD_NEXT, c"PMPI_Cartdim_get")?,
        symbol(libc::RTLD_NEXT, c"PMPI_Cart_shift")?,
    );
    // SAFETY: that is its type.
    let size =
        unsafe { mem::transmute::<usize, extern "C-unwind" fn(Handle, *mut c_int) -> c_int>(size) };
    // SAFETY: as before.
    let shift = unsafe {
        mem::transmute::<
            usize,
            extern "C-unwind" fn(Handle, c_int, c_int, *mut c_int, *mut c_int) -> c_int,
        >(shift)
    };
    let mut dimensions = 0;
    if size(comm, &raw mut dimensions) != 0 {
        return None;
    }
    let mut found = Vec::new();
    for dimension in 0..dimensions.clamp(0, DIMENSIONS_MAX) {
        let (mut before, mut behind) = (-1, -1);
        if shift(comm, dimension, 1, &raw mut before, &raw mut behind) != 0 {
            return None;
        }
        found.extend([before, behind]);
    }
    Some(found)
}

/// Neighbours of a rank in a graph that all ranks know.
fn graph(comm: Handle, rank: c_int) -> Option<Vec<c_int>> {
    let (count, list) = (
        symbol(libc::RTLD_NEXT, c"PMPI_Graph_neighbors_count")?,
        symbol(libc::RTLD_NEXT, c"PMPI_Graph_neighbors")?,
    );
    // SAFETY: that is its type.
    let count = unsafe {
        mem::transmute::<usize, extern "C-unwind" fn(Handle, c_int, *mut c_int) -> c_int>(count)
    };
    // SAFETY: as before.
    let list = unsafe {
        mem::transmute::<usize, extern "C-unwind" fn(Handle, c_int, c_int, *mut c_int) -> c_int>(
            list,
        )
    };
    let mut many = 0;
    if count(comm, rank, &raw mut many) != 0 {
        return None;
    }
    let mut found = places_for(many)?;
    (list(comm, rank, many, found.as_mut_ptr()) == 0).then_some(found)
}

/// Ranks that a graph, of which each rank knows its own part, sends to.
fn spread(comm: Handle) -> Option<Vec<c_int>> {
    type Count = extern "C-unwind" fn(Handle, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    type List = extern "C-unwind" fn(
        Handle,
        c_int,
        *mut c_int,
        *mut c_int,
        c_int,
        *mut c_int,
        *mut c_int,
    ) -> c_int;
    let (count, list) = (
        symbol(libc::RTLD_NEXT, c"PMPI_Dist_graph_neighbors_count")?,
        symbol(libc::RTLD_NEXT, c"PMPI_Dist_graph_neighbors")?,
    );
    // SAFETY: that is its type.
    let count = unsafe { mem::transmute::<usize, Count>(count) };
    // SAFETY: as before.
    let list = unsafe { mem::transmute::<usize, List>(list) };
    let (mut come, mut go, mut weighted) = (0, 0, 0);
    if count(comm, &raw mut come, &raw mut go, &raw mut weighted) != 0 {
        return None;
    }
    let (mut from, mut from_weights) = (places_for(come)?, places_for(come)?);
    let (mut to, mut weights) = (places_for(go)?, places_for(go)?);
    let listed = list(
        comm,
        come,
        from.as_mut_ptr(),
        from_weights.as_mut_ptr(),
        go,
        to.as_mut_ptr(),
        weights.as_mut_ptr(),
    );
    (listed == 0).then_some(to)
}

/// Room for so many ranks.
fn places_for(many: c_int) -> Option<Vec<c_int>> {
    let many = usize::try_from(many)
        .ok()
        .filter(|many| *many <= GROUP_MAX)?;
    Some(vec![-1; many])
}

/// `MPI_COMM_WORLD`, and the bits of a handle.
fn world() -> Result<(Handle, usize), &'static str> {
    // In MPICH and what has its ABI: Intel MPI, MVAPICH, Cray.
    const MPICH: Handle = 0x4400_0000;
    if symbol(libc::RTLD_NEXT, c"PMPI_Init").is_none() {
        return Err("this program's MPI is static");
    }
    if is_standard() {
        return Ok((STANDARD, usize::MAX));
    }
    if let Some(world) = symbol(libc::RTLD_DEFAULT, c"ompi_mpi_comm_world") {
        return Ok((world, usize::MAX));
    }
    let words = version().ok_or("the MPI library does not say what it is")?;
    let known = [&b"MPICH"[..], b"Intel(R) MPI", b"MVAPICH", b"CRAY MPICH"];
    let is_known = known.iter().any(|name| {
        let mut places = words.windows(name.len());
        places.any(|place| place == *name)
    });
    match is_known {
        true => Ok((MPICH, 0xffff_ffff)),
        false => Err("the MPI library is of an unknown kind"),
    }
}

/// Whether the library is one with the ABI of the standard, whose name is part of it.
fn is_standard() -> bool {
    let mut found: libc::Dl_info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let Some(init) = symbol(libc::RTLD_NEXT, c"PMPI_Init") else {
        return false;
    };
    let init = ptr::without_provenance(init);
    // SAFETY: any address may be asked for, and `found` is a place for the answer.
    let known = unsafe { libc::dladdr(init, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: a name that ends with a zero, and lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let name = name.to_bytes().rsplit(|&byte| byte == b'/').next();
    name.is_some_and(|name| name.starts_with(b"libmpi_abi"))
}

/// What the library calls itself.
fn version() -> Option<Vec<u8>> {
    // MPICH wants 8192.
    const BYTES: usize = 16 << 10;
    let found = symbol(libc::RTLD_NEXT, c"PMPI_Get_library_version")?;
    // SAFETY: that is its type.
    let get = unsafe {
        mem::transmute::<usize, extern "C-unwind" fn(*mut c_char, *mut c_int) -> c_int>(found)
    };
    let (mut words, mut length) = (vec![0u8; BYTES], 0);
    if get(words.as_mut_ptr().cast::<c_char>(), &raw mut length) != 0 {
        return None;
    }
    words.truncate(usize::try_from(length).ok()?);
    Some(words)
}
