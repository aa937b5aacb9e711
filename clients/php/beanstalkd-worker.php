<?php
// Works off mails with Pheanstalk: php beanstalkd-worker.php QUEUE [COUNT]
declare(strict_types=1);

use Pheanstalk\Exception as Failure;
use Pheanstalk\Exception\JobNotFoundException;
use Pheanstalk\Job;
use Pheanstalk\Pheanstalk;

require_once 'Pheanstalk/autoload.php';
require_once __DIR__ . '/mail.php';

const TRIES = 3; // The protocol knows no retry policy; the worker has one.

function work(Pheanstalk $auxo, Job $job): void
{
    $stats = $auxo->statsJob($job);
    $attempt = (int) $stats['reserves'];
    try {
        send($job->getData(), $attempt);
        $auxo->delete($job);
    } catch (Busy | Unreadable $error) {
        if ($error instanceof Busy && $attempt < TRIES) {
            fwrite(STDERR, "again: {$error->getMessage()}\n");
            $auxo->release($job, (int) $stats['pri'], $attempt); // A second later, then two.
        } else {
            // Kept for a person to look at: `auxo jobs --state dead`, then `auxo kick`.
            fwrite(STDERR, "buried: {$error->getMessage()}\n");
            $auxo->bury($job, (int) $stats['pri']);
        }
    }
}

$left = (int) ($argv[2] ?? -1);
if ($argc < 2 || $argc > 3 || $left === 0) {
    fwrite(STDERR, "usage: php beanstalkd-worker.php QUEUE [COUNT]\n");
    exit(2);
}
$address = getenv('AUXO_BEANSTALK') ?: '127.0.0.1:11300';
[$host, $port] = explode(':', $address);

try {
    $auxo = Pheanstalk::create($host, (int) $port)->watchOnly($argv[1]);
    while ($left !== 0) {
        // A finite wait notices a server that is gone; an endless one might not.
        $job = $auxo->reserveWithTimeout(30);
        if ($job === null) {
            continue;
        }
        $left--;
        try {
            work($auxo, $job);
        } catch (JobNotFoundException $error) {
            // It took longer than the TTR, and somebody else has the job. `$auxo->touch($job)` in between prolongs it.
            fwrite(STDERR, "lost: {$job->getId()}\n");
        }
    }
} catch (Failure $error) {
    fwrite(STDERR, "error: $address: {$error->getMessage()}\n");
    exit(1);
}
