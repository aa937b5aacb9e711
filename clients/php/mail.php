<?php
// The work itself, the same behind every protocol: a job is a mail in JSON, and sending it is printing it.
declare(strict_types=1);

/** The job is no mail, and no further try will make it one. */
class Unreadable extends Exception
{
}

/** It did not work this time; it may the next. */
class Busy extends Exception
{
}

/** `takes` (seconds) and `fails` (tries) stand for what real work does: it lasts, and it goes wrong at first. */
function send(string $payload, int $attempt): void
{
    $mail = json_decode($payload, true);
    if (!is_array($mail) || !is_string($mail['to'] ?? null) || !is_string($mail['text'] ?? null)) {
        throw new Unreadable('not a mail');
    }
    usleep((int) (($mail['takes'] ?? 0) * 1_000_000));
    if ($attempt <= ($mail['fails'] ?? 0)) {
        throw new Busy("the mailbox of {$mail['to']} is busy");
    }
    echo "{$mail['to']}: {$mail['text']}\n";
}
