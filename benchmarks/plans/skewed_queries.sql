-- Joins over the skewed tables: common values and rare ones, ranges, NULLs, columns that follow
-- others, semi and anti joins, groups.

-- rare kind
SELECT u.country, count(*) FROM events e JOIN users u ON u.id = e.user_id
WHERE e.kind = 'complaint' GROUP BY u.country;

-- common kind
SELECT u.country, count(*) FROM events e JOIN users u ON u.id = e.user_id
WHERE e.kind = 'view' GROUP BY u.country;

-- most active user
SELECT p.brand, count(*) FROM events e JOIN products p ON p.id = e.product_id
WHERE e.user_id = 1 GROUP BY p.brand;

-- inactive user
SELECT p.brand, count(*) FROM events e JOIN products p ON p.id = e.product_id
WHERE e.user_id = 99000 GROUP BY p.brand;

-- events of one day
SELECT p.category, count(*) FROM events e JOIN products p ON p.id = e.product_id
WHERE e.at >= '2024-06-01' AND e.at < '2024-06-02' GROUP BY p.category;

-- events of all but the first days
SELECT p.category, count(*) FROM events e JOIN products p ON p.id = e.product_id
WHERE e.at >= '2024-01-20' GROUP BY p.category;

-- small country
SELECT count(*), sum(e.amount) FROM users u JOIN events e ON e.user_id = u.id
WHERE u.country = 'country 59' AND e.kind = 'buy';

-- large country
SELECT count(*), sum(e.amount) FROM users u JOIN events e ON e.user_id = u.id
WHERE u.country = 'country 0' AND e.kind = 'buy';

-- amounts that are there
SELECT u.tariff, avg(e.amount) FROM events e JOIN users u ON u.id = e.user_id
WHERE e.amount IS NOT NULL GROUP BY u.tariff;

-- high amounts
SELECT u.id, e.amount FROM events e JOIN users u ON u.id = e.user_id
WHERE e.amount > 890 ORDER BY e.amount DESC, u.id LIMIT 50;

-- dropped products
SELECT count(*) FROM products p JOIN events e ON e.product_id = p.id
WHERE p.dropped IS NOT NULL AND e.kind = 'return';

-- dear products
SELECT p.id, count(*) FROM products p JOIN events e ON e.product_id = p.id
WHERE p.price > 4900 GROUP BY p.id ORDER BY count(*) DESC, p.id LIMIT 20;

-- referred by the first users
SELECT r.id, count(*) FROM users r JOIN users u ON u.referrer = r.id
WHERE r.id < 20 GROUP BY r.id ORDER BY r.id;

-- users without events
SELECT count(*) FROM users u
WHERE NOT EXISTS (SELECT FROM events e WHERE e.user_id = u.id);

-- users with a complaint
SELECT count(*) FROM users u WHERE u.tariff = 'trial'
AND EXISTS (SELECT FROM events e WHERE e.user_id = u.id AND e.kind = 'complaint');

-- visits of the first page
SELECT u.tariff, count(*) FROM visits v JOIN users u ON u.id = v.user_id
WHERE v.page = '/page/0' GROUP BY u.tariff;

-- visits of a rare page
SELECT u.tariff, count(*) FROM visits v JOIN users u ON u.id = v.user_id
WHERE v.page = '/page/4990' GROUP BY u.tariff;

-- visits and events of a day
SELECT count(*) FROM visits v JOIN events e ON e.user_id = v.user_id AND e.at::date = v.day
WHERE v.day = '2024-03-01' AND e.at >= '2024-03-01' AND e.at < '2024-03-02';

-- sessions with a purchase
SELECT count(DISTINCT e.session) FROM events e JOIN events b ON b.session = e.session
WHERE b.kind = 'buy' AND b.at >= '2024-12-01' AND e.kind = 'view';

-- four tables
SELECT u.country, p.category, count(*)
FROM users u JOIN events e ON e.user_id = u.id JOIN products p ON p.id = e.product_id
    JOIN visits v ON v.user_id = u.id
WHERE e.coupon = 'coupon 39' AND p.category < 5 AND v.dwell > 500
GROUP BY u.country, p.category ORDER BY count(*) DESC, u.country, p.category LIMIT 20;
