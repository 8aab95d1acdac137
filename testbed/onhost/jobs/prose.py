"""A short text on light and learning, written for this project as training data."""

from __future__ import annotations

PROSE = """\
A mirror the size of a grain of sand turns by a fraction of a degree, and a beam that was falling
into one fibre falls into another. Nothing in the light has been read, stored or copied. The switch
does not know what a packet is, how fast the bits follow one another, or in which language the
machines at both ends have agreed to speak. It offers a path, and while the path stands it belongs
to two ports and to nobody else. That is the whole charm of circuit switching with light, and the
whole difficulty as well, because a path that belongs to two ports must be given before it is used.

Packet switches make that decision anew for every packet. They pay for it with lasers, converters,
buffers and memory, at every hop, for as long as they are powered. An optical switch decides rarely
and pays almost nothing in between. Whether rarely is often enough depends on the traffic. A
network of strangers, each of whom may call any other at any moment, needs packets. A training job
is no stranger to itself. It repeats the same step many thousands of times, and every step sends
the same number of bytes between the same partners in the same order. A machine that is so well
acquainted with its own future can ask for its light in advance.

Consider a ring. Four accelerators hold a copy of the same model, and each has read a different
page. What they have learned from these pages are four long lists of numbers, the gradients, and
before any of them may turn to the next page all four need the sum. Cut each list into four parts.
In the first round every accelerator hands one part to its neighbour on the right, who adds its own
and hands the sum on in the next round. After three rounds each of them holds one part of the sum,
complete. After three more rounds, in which nothing is added and everything is passed on, all of
them hold all of it. Each link of the ring has carried the same load in one direction, no link was
idle, and nobody ever spoke to anyone but a neighbour. For such a conversation a switch that knows
four circuits is as good as one that knows every address in the building, provided that the four
circuits stay.

They do not always stay. A connector gathers dust and the received power falls, first a little
every week and then a great deal in one night. A laser ages. Somebody closes a cabinet door on a
patch cord. A fan stops, a supply trips, a kernel panics, and one accelerator out of many thousands
no longer answers. The other three in its ring wait for bytes that nobody will send. To the
protocol they speak this is not an error. Silence on a line means only that nothing has been said
so far, and a patient protocol will wait for a very long time before it calls silence a failure.
Meanwhile the most expensive machines in the building are doing nothing at all, with great care.

Somebody else must notice. A heartbeat that does not come, a process that has ended, a receiver
that reports the loss of light: each of these is a witness, none of them sees everything, and they
do not speak at the same time. The one who listens to all of them has to decide what happened
before it is certain, because certainty arrives late. Then the order of events is always much the
same. The broken part is shut out, so that it cannot come back in the middle of the repair and
speak with an old voice. A spare is chosen. The mirrors turn, and the light that went to the lost
machine goes to the spare. The survivors drop the sum they were working on, since half of a sum is
worth less than none. They agree on the last step that all of them had finished. The newcomer
receives the state of the model from the neighbour that feeds it, and the ring closes again.

How long did it take? The question is less simple than it looks. The switch may report that it was
ready after twenty milliseconds, which is true, and of no interest to anybody who waits for the
model. The link needs some time more before both ends believe in it. The processes need time to
find each other. The state has to travel. Only when the slowest member of the ring has finished a
step, and when that step has been shown to be the right one, may the clock be stopped. A quick
answer that is wrong is not a recovery. It is a second failure, and a worse one, because it does
not look like one.

So every repair needs a proof. The sums that come out of the ring must be the sums that went in.
The parameters of all members must agree to the last bit, which is a strict demand and a cheap one:
if everybody adds the same numbers in the same order, everybody ends with the same bits, and a short
checksum is enough to compare them. The loss after the repair must be the loss that an undisturbed
run would have seen at this step. When all of that holds, the interruption has left no trace in the
model. It has only cost time, and the time can be written down.

The model itself may be small. A few layers are enough to have a forward pass, in which each layer
looks back at what came before and never ahead, and a backward pass, in which blame is handed down
from the last layer to the first. Attention compares every letter with the letters before it and
decides which of them matter. Rotations of the keys and queries tell near from far. Between the
attentions a gate opens for some thoughts and closes for others. In the beginning the model expects
every letter with the same indifference. After some steps it has noticed that spaces are common and
that the letter q is followed by the letter u. After some more it writes words that could have been
words. It will never be of any use, and it does not have to be. It has to be exact, it has to be
repeatable, and it has to keep its machine busy for as long as a larger one would between two
exchanges of gradients.

Measure the quiet parts too. A dark fibre should be dark for as long as the plan says, and no
longer. A ring that nobody disturbs should take as long as the arithmetic predicts: the bytes that
each member has to send, divided by the rate of its link, and a little more for the beginning and
the end. When the prediction and the clock agree, one begins to trust both. When they do not agree,
something has been learned, and it is usually not about the light.

At the end of the day the mirrors are turned back to where they were in the morning. Every circuit
that was made is undone, every fault that was injected is lifted, and the state of the switch is
read once more, because a promise to clean up is not the same as a clean bench. Whoever comes next
should find the room as though nobody had been there, with one exception. On the shelf there is one
more notebook, with the time of every event in it, and nothing has been torn out.
"""
