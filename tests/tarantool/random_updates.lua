-- tarantool random_updates.lua SEED DIR [CASES=1500]
--
-- Makes a data folder of the running Tarantool in DIR/data: a snapshot, and a log of CASES random lists of update
-- operations, each done as an UPDATE to one tuple and as an UPSERT to another one like it, by raw MsgPack. What fails is
-- not logged (UPDATE), or left out operation by operation (UPSERT).
--
-- What 2.6 does in some cases depends on what its memory holds, or it crashes. There no two paths of a list are the same or
-- one the beginning of the other, a number leads into a map in lists of one operation only, and an operation with a path
-- does not come after one without.
local ffi, fio, bit, msgpack, decimal = require('ffi'), require('fio'), require('bit'), require('msgpack'), require('decimal')
pcall(function() require('fiber').set_max_slice(1e6) end)
local SEED, DIR, CASES = assert(tonumber(arg[1]), 'SEED'), assert(arg[2], 'DIR'), tonumber(arg[3] or '1500')
local IS_NEW = tonumber(_TARANTOOL:match('^(%d+)')) >= 3
for _, d in ipairs{
    'int box_insert(uint32_t space_id, const char *tuple, const char *tuple_end, void **result);',
    'int box_update(uint32_t space_id, uint32_t index_id, const char *key, const char *key_end, const char *ops, const char *ops_end, int index_base, void **result);',
    'int box_upsert(uint32_t space_id, uint32_t index_id, const char *tuple, const char *tuple_end, const char *ops, const char *ops_end, int index_base, void **result);',
} do pcall(ffi.cdef, d) end

local state = SEED * 2654435761ULL + 0x9e3779b97f4a7c15ULL
local function u32()
    state = state * 6364136223846793005ULL + 1442695040888963407ULL
    return tonumber(bit.rshift(state, 32))
end
for _ = 1, 5 do u32() end
local function int(a, b) return a + u32() % (b - a + 1) end
local function chance(p) return u32() < p * 4294967296 end
local function pick(t) return t[int(1, #t)] end

-- MsgPack as strings.
local float = ffi.new('union { float value; uint8_t bytes[4]; }')
local function ca(value)
    float.value = value
    return '\xca' .. string.char(float.bytes[3], float.bytes[2], float.bytes[1], float.bytes[0])
end
local function str(s)
    if chance(0.1) then return '\xd9' .. string.char(#s) .. s end
    return msgpack.encode(s)
end
local function head(short, long, n)
    if chance(0.1) then return long .. '\x00' .. string.char(n) end
    return n < 16 and string.char(short + n) or long .. '\x00' .. string.char(n)
end
local INTS = {0, 1, 5, 127, 128, 255, 256, 65535, 65536, -1, -32, -33, -128, -129, 2147483647, 2147483648,
    4294967296ULL, 9007199254740993ULL, 9223372036854775807ULL, 18446744073709551615ULL, -9223372036854775807LL}
local DECIMALS = {'0', '1', '-1', '1.5', '0.1', '-0.001', '123456789012345678901234567890', '99999999999999999999999999999999999999',
    '1e37', '1e-37', '100', '3.14159265358979323846'}
local function number()
    local kind = int(1, 10)
    if kind <= 4 then return msgpack.encode(pick(INTS)) end
    if kind == 5 then return '\xcf\x00\x00\x00\x00\x00\x00\x00' .. string.char(int(0, 255)) end
    if kind == 6 then return msgpack.encode(pick{0.5, 0.1, -2.25, 1e300, 1e-300, 16777217.5, 1e10}) end
    if kind == 7 then return ca(pick{0.5, -1.25, 3, 1e30, 0}) end
    if kind == 8 then return '\xcb' .. pick{'\x7f\xf0', '\xff\xf0', '\x7f\xf8', '\x80\x00', '\x40\x08'} .. ('\x00'):rep(6) end
    return msgpack.encode(decimal.new(pick(DECIMALS)))
end
local KEYS = {'a', 'b', 'c', 'd', 'e', 'key', 'f'}
-- Values come with a description: of a map its elements by key, of an array its elements by number.
local value
local function container(is_map, n, depth)
    local parts, inside = {}, {is_map = is_map}
    for i = 1, n do
        local raw, description = value(depth)
        if is_map then
            local key = chance(0.1) and int(1, 4) or pick(KEYS)
            if inside[key] == nil then inside[key] = description or false end
            raw = (IS_NEW and type(key) == 'string' and str(key) or msgpack.encode(key)) .. raw
        else
            inside[i] = description or false
        end
        parts[i] = raw
    end
    return (is_map and head(0x80, '\xde', n) or head(0x90, '\xdc', n)) .. table.concat(parts), inside
end
function value(depth)
    local kind = int(1, depth > 0 and 10 or 6)
    if kind <= 3 then return number() end
    if kind == 4 then return str(('x'):rep(int(0, 40)) .. 'yz') end
    if kind == 5 then return pick{'\xc0', '\xc2', '\xc3', '\xc4\x03abc', '\xd8\x02' .. ('u'):rep(16)} end
    if kind == 6 then return str(pick{'', 'abcdef'}) end
    return container(kind > 8, int(0, 5), depth - 1)
end

local FIELDS = {{'id', 'unsigned'}, {'m', 'map'}, {'l', 'array'}, {'any', 'any'}, {'d', 'double'}, {'n', 'number'}, {'s', 'string'}, {'x', 'any'}}
local function double() return '\xcb' .. pick{'\x3f\xf8', '\x40\x00', '\xc0\x04'} .. ('\x00'):rep(6) end
local function fields()
    local parts, inside = {}, {}
    local function add(raw, description)
        table.insert(parts, raw)
        table.insert(inside, description or false)
    end
    add(container(true, int(1, 6), 2))
    add(container(false, int(1, 6), 2))
    add(value(3))
    add(double())
    add(number())
    add(str(pick{'', 'abc', 'abcdefgh'}))
    add(value(3))
    local n = int(4, 7)
    return table.concat(parts, '', 1, n), n, inside
end

-- A field without a path: its MsgPack.
local function top(base)
    local kind = int(1, 4)
    if kind <= 2 then return msgpack.encode(int(1, 9) + base) end
    -- Tarantool counts fields from the end as if every operation before had been possible, and then may not see that the
    -- primary key changes; so none goes that far.
    if kind == 3 then return msgpack.encode(int(IS_NEW and -10 or -3, -1)) end
    return str(pick(FIELDS)[1])
end

-- A path that mostly leads where there is something: its MsgPack, and whether it goes by a number where there is no array, or so.
local NUMBERS = {m = 1, l = 2, any = 3, d = 4, n = 5, s = 6, x = 7}
local function path(inside, paths)
    local name = pick{'m', 'm', 'm', 'l', 'l', 'any', 'x', 'd'}
    local text = pick{name, '[' .. NUMBERS[name] + 1 .. ']', '["' .. name .. '"]'}
    local tokens, here, is_number, is_odd = '/' .. name .. '/', inside[NUMBERS[name]], false, false
    for _ = 1, int(1, 4) do
        is_number = not (here and here.is_map)
        if chance(0.1) then is_number = not is_number end
        is_odd = is_odd or not here or is_number == (here.is_map or false)
        local token = is_number and int(1, 6) or pick(KEYS)
        if is_number then text = text .. '[' .. token .. ']'
        else text = text .. (chance(0.2) and '["' .. token .. '"]' or '.' .. token) end
        tokens = tokens .. token .. '/'
        here = here and here[token]
        if not here and chance(0.9) then break end
    end
    if chance(0.03) then text = text .. pick{'[*]', '[', '..', '[0]', '.'} end
    if not IS_NEW then
        if is_odd and #paths > 0 or paths.is_odd then return nil end
        paths.is_odd = is_odd
        for _, other in ipairs(paths) do
            if tokens:sub(1, #other) == other or other:sub(1, #tokens) == tokens then return nil end
        end
    end
    table.insert(paths, tokens)
    return msgpack.encode(text), is_odd
end

local function operation(base, paths, inside)
    local has_path, where, is_odd = chance(0.7) and (IS_NEW or not paths.is_closed)
    if has_path then where, is_odd = path(inside, paths) else where, paths.is_closed = top(base), true end
    if where == nil then return nil end
    local op = pick{'=', '=', '=', '!', '!', '#', '#', '+', '-', '&', '|', '^', ':'}
    -- 2.6 takes away too much or too little around keys that are no strings, or not in the shortest form.
    if op == '#' and is_odd and not IS_NEW then op = '=' end
    if op == ':' then
        local paste = IS_NEW and chance(0.2) and '\xc4\x01p' or msgpack.encode(pick{'', 'P', 'paste'})
        return '\x95' .. msgpack.encode(op) .. where .. msgpack.encode(int(-9, 9)) .. msgpack.encode(int(-9, 9)) .. paste
    end
    local argument
    if op == '=' or op == '!' then argument = (value(2))
    elseif op == '#' then argument = msgpack.encode(has_path and chance(0.8) and 1 or int(1, 3))
    elseif op == '+' or op == '-' then argument = number()
    else argument = msgpack.encode(pick{0, 1, 7, 255, 4294967296ULL, 18446744073709551615ULL}) end
    if chance(0.01) then argument = (value(1)) end
    return '\x93' .. msgpack.encode(op) .. where .. argument
end

fio.mktree(DIR .. '/data')
local at = fio.abspath(DIR .. '/data')
box.cfg{memtx_dir = at, wal_dir = at, vinyl_dir = at, log = DIR .. '/case.log', log_level = 1, checkpoint_interval = 0,
    wal_mode = 'write', memtx_memory = 256 * 1024^2}
local space = box.schema.space.create('updates')
space:create_index('pk', {parts = {{1, 'unsigned'}}})
-- The format allows less than updates make of tuples, so some fail for it; others go with a format without types.
local loose = box.schema.space.create('loose', {format = {{'id', 'unsigned'}, {'m', 'any'}, {'l', 'any'}, {'any', 'any'}, {'d', 'double', is_nullable = true}}})
loose:create_index('pk', {parts = {{1, 'unsigned'}}})
local format = {}
for i, f in ipairs(FIELDS) do format[i] = {name = f[1], type = f[2], is_nullable = i > 3} end
space:format(format)
box.snapshot()

local result = ffi.new('void *[1]')
for case = 1, CASES do
    local id, base = (chance(0.5) and space or loose).id, int(0, 1)
    local tail, parts, inside = fields()
    local operations, paths = {}, {}
    for _ = 1, int(1, 6) do
        local op = operation(base, paths, inside)
        if op then table.insert(operations, op) end
    end
    local ops = string.char(0x90 + #operations) .. table.concat(operations)
    for twin = 0, 1 do
        local key = msgpack.encode(2 * case + twin)
        local tuple = head(0x90, '\xdc', parts + 1) .. key .. tail
        local p = ffi.cast('const char *', tuple)
        if ffi.C.box_insert(id, p, p + #tuple, result) == 0 then
            local o = ffi.cast('const char *', ops)
            if twin == 0 then
                key = '\x91' .. key
                local k = ffi.cast('const char *', key)
                ffi.C.box_update(id, 0, k, k + #key, o, o + #ops, base, result)
            else
                ffi.C.box_upsert(id, 0, p, p + #tuple, o, o + #ops, base, result)
            end
        end
    end
end
os.exit(0)
