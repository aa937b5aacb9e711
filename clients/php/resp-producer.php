<?php
// Pushes two mails with PHP's extension for Redis and Auxo's own commands: php resp-producer.php QUEUE NAME
declare(strict_types=1);

if ($argc !== 3) {
    fwrite(STDERR, "usage: php resp-producer.php QUEUE NAME\n");
    exit(2);
}
[, $queue, $name] = $argv;
$address = getenv('AUXO_RESP') ?: '127.0.0.1:7711';
[$host, $port] = explode(':', $address);

function push(Redis $auxo, string $queue, array $mail, string ...$fields): void
{
    // The key makes the job unique, so a push whose answer was lost can be repeated: it answers the same id.
    $key = "{$mail['text']}:{$mail['to']}";
    $answer = $auxo->rawCommand('AUXO.PUSH', $queue, json_encode($mail), 'key', $key, 'on_duplicate', 'return', ...$fields);
    if ($answer === false) {
        throw new RedisException($auxo->getLastError());
    }
    // An answer is a list of names and values.
    echo array_column(array_chunk($answer, 2), 1, 0)['id'], "\n";
}

try {
    $auxo = new Redis();
    $auxo->connect($host, (int) $port, 5);
    push($auxo, $queue, ['to' => $name, 'text' => 'welcome'], 'priority', '0');
    push($auxo, $queue, ['to' => $name, 'text' => 'how do you like it?'], 'delay', '1s');
} catch (RedisException $error) {
    fwrite(STDERR, "error: $address: {$error->getMessage()}\n");
    exit(1);
}
