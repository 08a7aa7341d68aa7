-- Skewed tables, in the way of a shop's: a few users and products have most of the events, a few
-- pages most of the visits; some columns are mostly NULL, some follow others.

-- users 100000
CREATE TABLE users (
    id integer NOT NULL PRIMARY KEY,
    country text NOT NULL,
    signed date NOT NULL,
    tariff text NOT NULL,
    referrer integer,
    email text NOT NULL
);
SELECT n, 'country ' || floor(60 * random() ^ 3), date '2015-01-01' + n / 30,
    CASE WHEN random() < 0.97 THEN 'free' WHEN random() < 0.9 THEN 'paid' ELSE 'trial' END,
    CASE WHEN random() < 0.3 THEN floor(1 + 99999 * random() ^ 5)::integer END,
    'user' || n || '@host' || floor(500 * random() ^ 2) || '.example'
FROM generate_series(1, 100000) AS n;

-- products 20000
CREATE TABLE products (
    id integer NOT NULL PRIMARY KEY,
    category integer NOT NULL,
    brand text NOT NULL,
    price numeric(10,2) NOT NULL,
    dropped date
);
SELECT n, floor(200 * random() ^ 3), 'brand ' || floor(900 * random() ^ 2),
    round((1 + 5000 * random() ^ 6)::numeric, 2),
    CASE WHEN random() < 0.02 THEN date '2024-01-01' + floor(300 * random())::integer END
FROM generate_series(1, 20000) AS n;

-- events 2000000
CREATE TABLE events (
    id bigint NOT NULL PRIMARY KEY,
    user_id integer NOT NULL,
    product_id integer NOT NULL,
    kind text NOT NULL,
    at timestamp NOT NULL,
    session bigint NOT NULL,
    amount numeric(10,2),
    coupon text
);
CREATE INDEX ON events (user_id);
CREATE INDEX ON events (product_id);
CREATE INDEX ON events (at);
SELECT n, floor(1 + 99999 * power(random(), 4)), floor(1 + 19999 * power(random(), 3)),
    CASE WHEN draw < 0.9 THEN 'view' WHEN draw < 0.97 THEN 'basket' WHEN draw < 0.995 THEN 'buy'
        WHEN draw < 0.9995 THEN 'return' ELSE 'complaint' END,
    timestamp '2024-01-01' + n * interval '15 seconds', n / 5,
    CASE WHEN draw >= 0.97 THEN round((1 + 900 * power(random(), 4))::numeric, 2) END,
    CASE WHEN draw >= 0.98 THEN 'coupon ' || floor(40 * power(random(), 2)) END
FROM (SELECT n, random() AS draw FROM generate_series(1, 2000000) AS n) AS drawn;

-- visits 1000000
CREATE TABLE visits (
    user_id integer NOT NULL,
    day date NOT NULL,
    page text NOT NULL,
    dwell integer NOT NULL
);
CREATE INDEX ON visits (user_id, day);
CREATE INDEX ON visits (page);
SELECT floor(1 + 99999 * power(random(), 3)), date '2024-01-01' + n / 3000,
    '/page/' || floor(5000 * power(random(), 5)), floor(600 * power(random(), 3))
FROM generate_series(1, 1000000) AS n;
