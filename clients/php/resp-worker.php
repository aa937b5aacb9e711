<?php
// Works off mails with PHP's extension for Redis and Auxo's own commands: php resp-worker.php QUEUE [COUNT]
declare(strict_types=1);

require_once __DIR__ . '/mail.php';

function call(Redis $auxo, string ...$command): array
{
    $auxo->clearLastError();
    $answer = $auxo->rawCommand(...$command);
    if ($answer === false) { // The extension answers a refusal so, and keeps what was said.
        throw new RedisException($auxo->getLastError() ?? 'no answer');
    }
    return $answer;
}

/** How the lease of a job ends. */
function work(array $job): array
{
    try {
        send($job['payload'], (int) $job['attempt']);
        return ['ack'];
    } catch (Unreadable $error) {
        fwrite(STDERR, "buried: {$error->getMessage()}\n");
        return ['bury', 'error', $error->getMessage()]; // For a person: `auxo jobs --state dead`, then `auxo kick`.
    } catch (Busy $error) {
        fwrite(STDERR, "again: {$error->getMessage()}\n");
        return ['fail', 'error', $error->getMessage()]; // Again by the job's own policy, or dead after its last try.
    }
}

$left = (int) ($argv[2] ?? -1);
if ($argc < 2 || $argc > 3 || $left === 0) {
    fwrite(STDERR, "usage: php resp-worker.php QUEUE [COUNT]\n");
    exit(2);
}
$address = getenv('AUXO_RESP') ?: '127.0.0.1:7711';
[$host, $port] = explode(':', $address);

try {
    $auxo = new Redis();
    $auxo->connect($host, (int) $port, 5);
    $auxo->setOption(Redis::OPT_READ_TIMEOUT, 40); // More patience than the wait that is asked for.
    while ($left !== 0) {
        foreach (call($auxo, 'AUXO.LEASE', 'WAIT', '30s', 'FROM', $argv[1]) as $fields) {
            $left--;
            $job = array_column(array_chunk($fields, 2), 1, 0); // A job is a list of names and values.
            $outcome = work($job);
            try {
                call($auxo, 'AUXO.SETTLE', $job['token'], ...$outcome);
            } catch (RedisException $error) {
                if (!str_starts_with($error->getMessage(), 'LEASE_LOST')) {
                    throw $error;
                }
                fwrite(STDERR, "lost: {$job['id']}\n"); // It took longer than its ttr. Somebody else has it; nothing was changed.
            }
        }
    }
} catch (RedisException $error) {
    fwrite(STDERR, "error: $address: {$error->getMessage()}\n");
    exit(1);
}
