#!/usr/bin/env tarantool
-- Writes a folder whose data is in its log: a snapshot of one empty space `bench` (id 512) and N logged statements.
--
--   tarantool generate_log.lua N DIR [BATCH=100] [SEED=42] [MEMTX_GIB=8]
--
-- Tuple: [id, a, s, n]: id ascending from 1, a below 1000000, s of 12 characters, n a counter.
-- Index `pk`: unique tree on id. Index `sk`: tree on a, s, not unique.
-- Of ten statements four insert the next id; two replace, two update (n grows, every other time a changes as well), one
-- upserts (an id of those that are or were there) and one deletes at random. BATCH statements are a transaction.
local N, DIR = assert(tonumber(arg[1]), 'N'), assert(arg[2], 'DIR')
local BATCH, SEED, GIB = tonumber(arg[3] or '100'), tonumber(arg[4] or '42'), tonumber(arg[5] or '8')
local fio, fiber, clock = require('fio'), require('fiber'), require('clock')
pcall(function() fiber.set_max_slice(1e6) end)
fio.mktree(DIR)
assert(#fio.glob(DIR .. '/*.snap') == 0, 'DIR holds a snapshot already')
box.cfg{memtx_memory = GIB * 1024^3, memtx_min_tuple_size = 16, wal_mode = 'write', checkpoint_count = 2,
        checkpoint_interval = 0, wal_max_size = 1024^3, memtx_dir = DIR, wal_dir = DIR, vinyl_dir = DIR,
        log = DIR .. '/generate.log'}
math.randomseed(SEED)
local rnd, char = math.random, string.char
local function word(n)
    local t = {}
    for i = 1, n do t[i] = char(97 + rnd(0, 25)) end
    return table.concat(t)
end
local s = box.schema.space.create('bench', {id = 512})
s:create_index('pk', {parts = {{1, 'unsigned'}}})
s:create_index('sk', {unique = false, parts = {{2, 'unsigned'}, {3, 'string'}}})
box.snapshot()
local start, last = clock.monotonic(), 0
local function row(id) return {id, rnd(0, 999999), word(12), 0} end
local function insert()
    last = last + 1
    s:insert(row(last))
end
local statements = {
    insert, insert, insert, insert,
    function() s:replace(row(rnd(1, last))) end,
    function() s:replace(row(rnd(1, last))) end,
    function() s:update(rnd(1, last), {{'+', 4, 1}}) end,
    function() s:update(rnd(1, last), {{'+', 4, 1}, {'=', 2, rnd(0, 999999)}}) end,
    function() s:upsert(row(rnd(1, last)), {{'+', 4, 1}}) end,
    function() s:delete(rnd(1, last)) end,
}
insert()
for first = 2, N, BATCH do
    box.begin()
    for _ = first, math.min(N, first + BATCH - 1) do statements[rnd(1, 10)]() end
    box.commit()
end
print(string.format('%d statements in %.0f s, %d tuples in %s', N, clock.monotonic() - start, s:len(), DIR))
os.exit(0)
