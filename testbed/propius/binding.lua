-- Bind a client to a round of a job, as accept() of testbed/tenancy/binding.py does.
-- KEYS: the job's record, its members, the client's record.
-- ARGV: job, client, round, now, silence of a job in seconds, life of a client in whole ones.
local now = tonumber(ARGV[4])
local job = redis.call('HMGET', KEYS[1], 'heard', 'phase', 'round', 'demand', 'public', 'slowest')
if job[1] and job[2] ~= 'finished' and job[2] ~= 'pruned'
    and now - tonumber(job[1]) >= tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[1], 'phase', 'pruned')
  job[2] = 'pruned'
end
local client = redis.call('HMGET', KEYS[3], 'heard', 'job', 'round', 'attributes', 'speed')
if not client[1] or now - tonumber(client[1]) >= tonumber(ARGV[6]) then
  redis.call('DEL', KEYS[3])
  return 'unknown'
end
redis.call('HSET', KEYS[3], 'heard', ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[6])
if not job[1] or job[2] == 'finished' or job[2] == 'pruned' then
  return 'not open'
end
if client[2] ~= '' then
  if client[2] == ARGV[1] and client[3] == ARGV[3] then
    return 'ok'
  end
  return 'bound'
end
if job[3] ~= ARGV[3] then
  return 'stale round'
end
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then
  return 'served'
end
local attributes = cjson.decode(client[4])
for _, demanded in ipairs(cjson.decode(job[5])) do
  local had = attributes[demanded[1]]
  if not had or not (had >= demanded[2]) then
    return 'not eligible'
  end
end
local amount, demand = redis.call('SCARD', KEYS[2]), tonumber(job[4])
if amount >= demand then
  return 'over-assign'
end
if job[2] ~= 'open' then
  return 'not open'
end
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[3], 'job', ARGV[1], 'round', ARGV[3])
if job[6] == '' or tonumber(client[5]) < tonumber(job[6]) then
  redis.call('HSET', KEYS[1], 'slowest', client[5])
end
if amount + 1 == demand then
  redis.call('HSET', KEYS[1], 'phase', 'executing', 'filled', ARGV[4])
end
return 'ok'
