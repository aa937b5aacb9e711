<?php
// Puts two mails into a queue with Pheanstalk: php beanstalkd-producer.php QUEUE NAME
declare(strict_types=1);

use Pheanstalk\Exception as Failure;
use Pheanstalk\Pheanstalk;

// As Debian packages it; with Composer it is vendor/autoload.php.
require_once 'Pheanstalk/autoload.php';

if ($argc !== 3) {
    fwrite(STDERR, "usage: php beanstalkd-producer.php QUEUE NAME\n");
    exit(2);
}
[, $queue, $name] = $argv;
$address = getenv('AUXO_BEANSTALK') ?: '127.0.0.1:11300';
[$host, $port] = explode(':', $address);

try {
    $auxo = Pheanstalk::create($host, (int) $port)->useTube($queue);

    // Priority 0 goes before everything else. The id comes back when the job is on the disk.
    $welcome = json_encode(['to' => $name, 'text' => 'welcome']);
    echo $auxo->put($welcome, 0, Pheanstalk::DEFAULT_DELAY, 60)->getId(), "\n";

    // The queue keeps it until it is due: a request to a web server can end long before.
    $reminder = json_encode(['to' => $name, 'text' => 'how do you like it?']);
    echo $auxo->put($reminder, Pheanstalk::DEFAULT_PRIORITY, 1, 60)->getId(), "\n";
} catch (Failure $error) {
    fwrite(STDERR, "error: $address: {$error->getMessage()}\n");
    exit(1);
}
