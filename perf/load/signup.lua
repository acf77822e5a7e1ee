-- wrk script: every request signs a new person up. wrk -t1 -c20 -d30s --latency -s perf/load/signup.lua URL/api/v1/access/signup
local number, run = 0, os.time()
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  number = number + 1
  local address = string.format("wrk-%d-%s-%d@example.com", run, tostring(wrk.thread):sub(-6), number)
  return wrk.format(nil, nil, nil, '{"email": "' .. address .. '", "password": "violet otter rides 9 trams"}')
end
